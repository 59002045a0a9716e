/**
 * The closed lists of the contract. The schemas and the API documents are made from these. The database's CHECK constraints
 * and partial indexes have them written out, so a value that is added here needs a migration that lets it in.
 */

export const JOB_STATUSES = ["queued", "running", "done", "failed", "cancelled"] as const;
export type JobStatus = (typeof JOB_STATUSES)[number];

export const TASK_STATUSES = ["active", "waiting", "blocked", "done", "cancelled"] as const;
export type TaskStatus = (typeof TASK_STATUSES)[number];

/** A task in one of these still holds its branch. */
export const UNFINISHED_TASK_STATUSES = ["active", "waiting", "blocked"] as const satisfies readonly TaskStatus[];

/**
 * How a run ended. The classes decide what happens next, so they are never folded into one another:
 * `failed` is the work's or the agent's fault, `tool_error` is neither's, `interrupted` is the scheduler's own doing.
 */
export const OUTCOMES = [
  "succeeded",
  "failed",
  "tool_error",
  "timed_out",
  "stalled",
  "cancelled",
  "interrupted",
  "superseded",
] as const;
export type Outcome = (typeof OUTCOMES)[number];

export const EVENT_KINDS = [
  "created",
  "claimed",
  "started",
  "exited",
  "advanced",
  "returned",
  "retried",
  "deferred",
  "requeued",
  "waiting",
  "approved",
  "blocked",
  "cancelled",
  "superseded",
  "paused",
  "resumed",
  "merged",
  "done",
] as const;
export type EventKind = (typeof EVENT_KINDS)[number];

/** The last stage of every pipeline: reached, never worked. */
export const DONE_STAGE = "done";

/** The one stage that the staging runner works instead of an agent, and the agent name its jobs carry. */
export const STAGING_STAGE = "deploy-staging";
export const STAGING_AGENT = "deployer";

/** Where a work item's artifacts stand in the repository. */
export const workItemFolder = (workItemId: string): string => `docs/work-items/${workItemId}`;
