import { type DeferDecision, type DeferView, decideDefer } from "@orchestrator/shared/defer.ts";
import type { Outcome } from "@orchestrator/shared/domain.ts";
import { BRANCH_MOVED, STAGER_UNREACHABLE } from "@orchestrator/shared/outcome_class.ts";
import { nextStageName, type Pipeline, type Stage } from "@orchestrator/shared/pipeline.ts";
import { backoffMs, retryDelayMs } from "@orchestrator/shared/retry_delay.ts";
import type { Job, Run, Task } from "@orchestrator/shared/schemas/rows.ts";
import type { Ended, RunResult } from "./run_result.ts";

/** A `tool_error` never uses up an attempt; so many of them on one job need a person all the same. */
export const MAX_TOOL_ERRORS = 10;

/** An agent that takes the machine down each time must not be started for ever. */
export const MAX_INTERRUPTIONS_IN_A_ROW = 5;

const STAGER_FIRST_DELAY_MS = 5_000;
const STAGER_LONGEST_DELAY_MS = 60_000;

export interface Situation {
  task: Pick<Task, "returns">;
  job: Pick<Job, "attempt" | "maxAttempts" | "taskContent">;
  stage: Stage;
  pipeline: Pipeline;
  /** The job's newest earlier runs, newest first. */
  earlier: readonly Pick<Run, "outcome" | "outcomeClass">[];
  /** How many of all its earlier runs ended in a tool error, those that waited for the stager not counted. */
  toolErrors: number;
  defer: Pick<DeferView, "delayMs" | "maxDefers" | "maxMs">;
  nowMs: number;
  /** From 0 to 1. */
  random: number;
}

/** What happens to the job and its task. */
export type Next =
  | { kind: "advance"; to: string }
  | { kind: "return"; to: string; why: string }
  /** The same job once more. */
  | { kind: "again"; event: "retried" | "requeued"; attempt: number; delayMs: number }
  /** A fresh job of the same stage, with a marker in its `task_content`. */
  | { kind: "defer"; availableAtMs: number }
  | { kind: "block"; reason: string };

/** Decides what follows from a run's result. Pure: the settle repeats its premises in its WHERE. */
export const decideNext = (result: RunResult, now: Situation): Next => {
  switch (result.kind) {
    case "passed":
      return { kind: "advance", to: nextStageName(now.pipeline, now.stage.name) };
    case "turned_down":
      return afterTurnedDown(result, now);
    case "needs_person":
      return { kind: "block", reason: result.reason };
    case "deferred":
      return afterDeferred(
        result.reason,
        decideDefer({ ...now.defer, taskContent: now.job.taskContent, now: now.nowMs }),
      );
    case "defers_used_up":
      return { kind: "block", reason: result.reason };
    case "branch_moved":
      return afterBranchMoved(result.reason, now);
    case "ended":
      return afterEnded(result, now);
  }
};

const afterTurnedDown = (result: Extract<RunResult, { kind: "turned_down" }>, { task, pipeline }: Situation): Next => {
  if (result.to === "blocked") return { kind: "block", reason: result.reason };
  if (task.returns + 1 > pipeline.maxReturns) {
    return {
      kind: "block",
      reason:
        `${result.reason}; it has gone back ${task.returns} times already and the pipeline allows ${pipeline.maxReturns}. ` +
        "Read the artifact, then retry it with a note or send it back with a reason",
    };
  }
  return { kind: "return", to: result.to, why: result.reason };
};

const afterDeferred = (reason: string, decision: DeferDecision): Next =>
  decision.kind === "defer"
    ? { kind: "defer", availableAtMs: decision.availableAtMs }
    : { kind: "block", reason: `${decision.reason}; last: ${reason}` };

const afterEnded = (result: Ended, now: Situation): Next => {
  if (result.outcome === "cancelled") {
    // A cancel is recorded, for run, job and task, before the run is told: its settle never comes this far.
    throw new Error("a run was ended as cancelled, and nobody has recorded that it was");
  }
  if (!now.stage.rerun && result.runsAgentAgain) {
    return {
      kind: "block",
      reason:
        `${result.reason}; the stage ${now.stage.name} is not run twice (rerun: false) and ended without a verdict. ` +
        "Look at what it has done, then retry or send it back",
    };
  }
  switch (result.outcome) {
    case "failed":
    case "timed_out":
    case "stalled":
      return afterFailedAttempt(result, now);
    case "tool_error":
      return result.class === STAGER_UNREACHABLE ? afterUnreachableStager(now) : afterToolError(result, now);
    case "interrupted":
      return afterInterruption(result, now);
  }
};

const afterFailedAttempt = (result: Ended, { job, random }: Situation): Next =>
  job.attempt >= job.maxAttempts
    ? {
        kind: "block",
        reason: `attempt ${job.attempt} of ${job.maxAttempts} ended ${result.outcome}: ${result.reason}`,
      }
    : { kind: "again", event: "retried", attempt: job.attempt + 1, delayMs: retryDelayMs(job.attempt, random) };

/** Once more at once; a branch that moves again and again has somebody at work on it, or a fault that must not loop. */
const afterBranchMoved = (reason: string, { job, earlier, random }: Situation): Next => {
  const before = inARow(earlier, (run) => run.outcomeClass === BRANCH_MOVED);
  if (before + 1 >= MAX_TOOL_ERRORS) {
    return { kind: "block", reason: `the branch moved under ${before + 1} runs in a row, the last time: ${reason}` };
  }
  const delayMs = before === 0 ? 0 : retryDelayMs(before, random);
  return { kind: "again", event: "requeued", attempt: job.attempt, delayMs };
};

const afterToolError = (result: Ended, { job, toolErrors, random }: Situation): Next => {
  const n = toolErrors + 1;
  return n >= MAX_TOOL_ERRORS
    ? {
        kind: "block",
        reason: `${n} tool errors on this job, the last ${result.class ?? "of no class"}: ${result.reason}`,
      }
    : { kind: "again", event: "retried", attempt: job.attempt, delayMs: retryDelayMs(n, random) };
};

const afterUnreachableStager = ({ job, earlier }: Situation): Next => {
  const n = inARow(earlier, (run) => run.outcomeClass === STAGER_UNREACHABLE) + 1;
  const delayMs = backoffMs(n, STAGER_FIRST_DELAY_MS, STAGER_LONGEST_DELAY_MS);
  return { kind: "again", event: "requeued", attempt: job.attempt, delayMs };
};

const afterInterruption = (result: Ended, { job, earlier }: Situation): Next => {
  const isInterrupted = (run: { outcome: Outcome | null }) => run.outcome === "interrupted";
  const n = inARow(earlier, isInterrupted) + 1;
  return n >= MAX_INTERRUPTIONS_IN_A_ROW
    ? {
        kind: "block",
        reason: `interrupted ${n} times in a row, the last: ${result.reason}. Does the agent take the machine down?`,
      }
    : { kind: "again", event: "requeued", attempt: job.attempt, delayMs: 0 };
};

const inARow = <T>(newestFirst: readonly T[], holds: (item: T) => boolean): number => {
  const end = newestFirst.findIndex((item) => !holds(item));
  return end === -1 ? newestFirst.length : end;
};
