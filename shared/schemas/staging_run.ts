import * as v from "valibot";
import { id, time } from "./text.ts";

/** The body of the stager's `POST /runs`. Everything else the stager reads from the database itself. */
export const stagingRunRequestSchema = v.strictObject({ job_id: id, run_id: id, task_id: id });
export type StagingRunRequest = v.InferOutput<typeof stagingRunRequestSchema>;

export const VERDICTS = ["success", "failed", "tool_error"] as const;
export type Verdict = (typeof VERDICTS)[number];

/** What the scheduler is to do with the job after the verdict. */
export const STAGING_ACTIONS = ["advance", "return", "defer", "block"] as const;
export type StagingAction = (typeof STAGING_ACTIONS)[number];

export const stagingArtifactSchema = v.object({ path: v.string(), content: v.string() });

export const stagingResultSchema = v.object({
  event: v.literal("result"),
  verdict: v.picklist(VERDICTS),
  /** The class of a `tool_error`; null for the other verdicts. */
  class: v.nullable(v.string()),
  action: v.picklist(STAGING_ACTIONS),
  reason: v.string(),
  commit: v.string(),
  /** Null for a `tool_error`: what says nothing about the work leaves nothing behind in its repository. */
  artifact: v.nullable(stagingArtifactSchema),
});
export type StagingResult = v.InferOutput<typeof stagingResultSchema>;

/** One line of the `application/x-ndjson` stream that `POST /runs` answers with. */
export const stagingEventSchema = v.variant("event", [
  v.object({
    event: v.literal("started"),
    job_id: id,
    run_id: id,
    commit: v.string(),
    branch: v.string(),
    at: time,
  }),
  v.object({
    event: v.literal("step"),
    name: v.string(),
    state: v.picklist(["started", "passed", "failed", "tool_error"]),
    exit_code: v.optional(v.nullable(v.number())),
    duration_ms: v.optional(v.number()),
    reason: v.optional(v.string()),
  }),
  v.object({ event: v.literal("output"), name: v.string(), text: v.string() }),
  v.object({ event: v.literal("heartbeat"), at: time }),
  stagingResultSchema,
]);
export type StagingEvent = v.InferOutput<typeof stagingEventSchema>;
