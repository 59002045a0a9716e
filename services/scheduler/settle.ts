import { type Clock, isoTime } from "@orchestrator/shared/clock.ts";
import type { Config } from "@orchestrator/shared/config/config.ts";
import { appendMarker } from "@orchestrator/shared/defer.ts";
import { DONE_STAGE } from "@orchestrator/shared/domain.ts";
import { type FINALIZER_EXPIRED, STAGER_UNREACHABLE } from "@orchestrator/shared/outcome_class.ts";
import { findStage } from "@orchestrator/shared/pipeline.ts";
import type { Points } from "@orchestrator/shared/points.ts";
import type { Run } from "@orchestrator/shared/schemas/rows.ts";
import { blockTask } from "@orchestrator/shared/storage/block_task.ts";
import { endJob, type JobHold, requeueJob } from "@orchestrator/shared/storage/end_job.ts";
import { endTaskLease } from "@orchestrator/shared/storage/end_task_lease.ts";
import { enqueueJob } from "@orchestrator/shared/storage/enqueue_job.ts";
import { finishRun } from "@orchestrator/shared/storage/finish_run.ts";
import { readSettlementView, type SettlementView } from "@orchestrator/shared/storage/read_settlement_view.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";
import type { Tx } from "@orchestrator/shared/storage/tx.ts";
import { advanceStage } from "./advance_stage.ts";
import { decideNext, type Next } from "./decide_next.ts";
import { enqueueStage } from "./enqueue_stage.ts";
import { must } from "./must.ts";
import { endingOf, type RunEnding, type RunResult } from "./run_result.ts";

export interface SettleDeps {
  storage: Storage;
  clock: Clock;
  points: Points;
  config: Pick<Config, "pipeline" | "stagingDeferDelayMs" | "stagingMaxDefers" | "stagingDeferMaxMs">;
  /** From 0 to 1: the jitter of a delay. */
  random: () => number;
}

export type Settlement =
  | { kind: "settled"; next: Next["kind"] }
  /** This run's outcome was recorded by an earlier try whose answer was lost. */
  | { kind: "settled_before" }
  /** The job is no longer this run's: somebody requeued, cancelled or took it over. Neither job nor task was changed. */
  | { kind: "superseded" };

/** Who made the job go back into the queue, where it was not the run's own end. */
export type RequeuedBy = "restart" | "shutdown" | "reaper" | typeof FINALIZER_EXPIRED | typeof STAGER_UNREACHABLE;

/**
 * Records the outcome of a run in one transaction: run, job, stage, head, the next job and the event, all or nothing. It
 * applies only while the job is `running` with this run, the task is leased to it, and this scheduler's epoch stands. It reads
 * before it writes, so that it may be called again after an error whose effect is unknown.
 */
export const settleRun = async (
  deps: SettleDeps,
  runId: number,
  result: RunResult,
  by: RequeuedBy | null = null,
): Promise<Settlement> => {
  await deps.points.reach("settle.before", runId);
  const random = deps.random();
  const settlement = await deps.storage.write(async (tx) => {
    const view = await readSettlementView(tx, runId);
    const { run, job, task } = view;
    if (run.outcome !== null && isSameEnding(run, endingOf(result))) return { kind: "settled_before" } as const;
    if (job.status !== "running" || job.runId !== runId || task.leaseRunId !== runId || task.status !== "active") {
      return recordSuperseded(tx, view, result);
    }
    const next = decide(deps, view, result, random);
    await finishRun(tx, runId, endingOf(result));
    await apply(deps, tx, view, result, next, by);
    await deps.points.reach("settle.before_commit", runId);
    return { kind: "settled", next: next.kind } as const;
  });
  await deps.points.reach("settle.after", runId);
  return settlement;
};

const decide = (deps: SettleDeps, view: SettlementView, result: RunResult, random: number): Next => {
  const stage = findStage(deps.config.pipeline, view.job.stage);
  if (!stage) {
    const reason = `the pipeline no longer has the stage ${view.job.stage}; put it back, or cancel the task`;
    return { kind: "block", reason };
  }
  return decideNext(result, {
    ...view,
    stage,
    pipeline: deps.config.pipeline,
    defer: {
      delayMs: deps.config.stagingDeferDelayMs,
      maxDefers: deps.config.stagingMaxDefers,
      maxMs: deps.config.stagingDeferMaxMs,
    },
    nowMs: deps.clock.now(),
    random,
  });
};

const recordSuperseded = async (tx: Tx, { run, job, task }: SettlementView, result: RunResult): Promise<Settlement> => {
  const { outcome, reason } = endingOf(result);
  const detail = { outcome, reason: `came too late: ${reason ?? outcome}` };
  if (await finishRun(tx, run.id, { outcome: "superseded", class: null, reason: detail.reason })) {
    await tx.event("superseded", { taskId: task.id, jobId: job.id, runId: run.id }, detail);
  }
  return { kind: "superseded" };
};

const apply = async (
  deps: SettleDeps,
  tx: Tx,
  view: SettlementView,
  result: RunResult,
  next: Next,
  by: RequeuedBy | null,
): Promise<void> => {
  const { task, job, run } = view;
  const hold: JobHold = { jobId: job.id, taskId: task.id, runId: run.id };
  const { outcome, class: outcomeClass, reason } = endingOf(result);
  const detail = { stage: job.stage, outcome, class: outcomeClass, reason };
  switch (next.kind) {
    case "advance":
      must(await endJob(tx, hold, "done", null));
      if (result.kind === "passed" && result.merged) await tx.event("merged", hold, { ...result.merged });
      return enterStage(deps, tx, view, { to: next.to, head: headOf(result), why: null });
    case "return":
      must(await endJob(tx, hold, "done", reason));
      return enterStage(deps, tx, view, { to: next.to, head: headOf(result), why: next.why });
    case "again": {
      const availableAt = isoTime(deps.clock.now() + next.delayMs);
      must(await requeueJob(tx, hold, { attempt: next.attempt, availableAt, error: reason }));
      const requeuedBy = by ?? (outcomeClass === STAGER_UNREACHABLE ? STAGER_UNREACHABLE : null);
      const times = { attempt: next.attempt, available_at: availableAt };
      return requeuedBy === null
        ? tx.event(next.event, hold, { ...detail, ...times })
        : tx.event("requeued", hold, { ...detail, ...times, by: requeuedBy });
    }
    case "defer": {
      must(await endJob(tx, hold, "done", reason));
      must(await endTaskLease(tx, hold));
      const availableAt = isoTime(next.availableAtMs);
      const taskContent = appendMarker(job.taskContent, tx.now, reason ?? outcome);
      const fresh = await enqueueJob(tx, { ...job, taskContent, availableAt });
      return tx.event("deferred", hold, { ...detail, available_at: availableAt, next_job_id: fresh.id });
    }
    case "block": {
      must(await endJob(tx, hold, "failed", next.reason));
      const head = "head" in result ? result.head : null;
      must(await blockTask(tx, task, { leaseRunId: run.id, reason: next.reason, head }));
      return tx.event("blocked", hold, { ...detail, reason: next.reason });
    }
  }
};

/** Moves the task and puts the next stage's job into the queue, unless the stage is the end or waits for a person. */
const enterStage = async (
  { config: { pipeline } }: SettleDeps,
  tx: Tx,
  { task, job, run }: SettlementView,
  move: { to: string; head: string; why: string | null },
): Promise<void> => {
  const isReturn = move.why !== null;
  const stage = findStage(pipeline, move.to);
  // Only the end of the pipeline is no stage: a name that nobody knows must not finish a task.
  must(stage !== undefined || move.to === DONE_STAGE);
  const status = stage === undefined ? "done" : stage.approval ? "waiting" : "active";
  const about = { taskId: task.id, jobId: job.id, runId: run.id };
  const step = {
    taskId: task.id,
    from: job.stage,
    to: move.to,
    leaseRunId: run.id,
    status,
    head: move.head,
    isReturn,
  } as const;
  must(await advanceStage(tx, step));
  const detail = { from: job.stage, to: move.to, head: move.head, ...(isReturn ? { reason: move.why } : {}) };
  await tx.event(isReturn ? "returned" : "advanced", about, detail);
  if (stage === undefined) return tx.event(DONE_STAGE, { taskId: task.id }, { head: move.head });
  if (status === "waiting") return tx.event("waiting", { taskId: task.id }, { stage: stage.name });
  await enqueueStage(tx, task, stage, move.why);
};

/** Whether the row already says what this settle would write: then it was this run that wrote it, not somebody in its place. */
const isSameEnding = (run: Run, ending: RunEnding): boolean =>
  run.outcome === ending.outcome && run.outcomeClass === ending.class && run.reason === ending.reason;

const headOf = (result: RunResult): string => {
  if ("head" in result) return result.head;
  throw new Error(`a run that came to '${result.kind}' has no commit to move the task with`);
};
