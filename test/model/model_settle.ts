import { DONE_STAGE } from "@orchestrator/shared/domain.ts";
import { endingOf, type RunEnding, type RunResult } from "../../services/scheduler/run_result.ts";
import type { RequeuedBy, Settlement } from "../../services/scheduler/settle.ts";
import { type Model, type ModelJob, type ModelRun, type ModelTask, stageOf } from "./model.ts";
import { CONFIG, PIPELINE, RANDOM } from "./surroundings.ts";

/** Written from the contract, and not from the code that it is held against. */
type Following =
  | { kind: "advance"; to: string; head: string }
  | { kind: "return"; to: string; head: string }
  | { kind: "again"; event: "retried" | "requeued"; attempt: number; delayMs: number }
  | { kind: "defer" }
  | { kind: "block"; head: string | null };

/** A run's outcome is recorded, with all that follows from it. */
export const predictSettle = (
  model: Model,
  runId: number,
  result: RunResult,
  by: RequeuedBy | null = null,
): Settlement => {
  const run = model.run(runId);
  const job = model.job(run.jobId);
  const task = model.task(run.taskId);
  const ending = endingOf(result);
  if (run.outcome !== null && isSame(run, ending)) return { kind: "settled_before" };
  const about = { taskId: task.id, jobId: job.id, runId };
  if (job.status !== "running" || job.runId !== runId || task.leaseRunId !== runId || task.status !== "active") {
    if (run.outcome === null) {
      Object.assign(run, { outcome: "superseded", class: null });
      model.event("superseded", { ...about, detail: { outcome: ending.outcome } });
    }
    return { kind: "superseded" };
  }
  const next = follow(model, { task, job, run }, result);
  Object.assign(run, ending);
  task.leaseRunId = null;
  const detail = { stage: job.stage, outcome: ending.outcome, class: ending.class };
  switch (next.kind) {
    case "advance":
      job.status = "done";
      model.event("advanced", { ...about, detail: { from: job.stage, to: next.to, head: next.head } });
      enter(model, task, next.to, next.head, null);
      break;
    case "return":
      job.status = "done";
      task.returns += 1;
      model.event("returned", { ...about, detail: { from: job.stage, to: next.to, reason: ending.reason } });
      enter(model, task, next.to, next.head, ending.reason);
      break;
    case "again": {
      const availableAtMs = model.clock.now() + next.delayMs;
      Object.assign(job, { status: "queued", runId: null, attempt: next.attempt, availableAtMs });
      const requeuedBy = by ?? (ending.class === "stager_unreachable" ? ending.class : null);
      const again = { ...detail, attempt: next.attempt };
      if (requeuedBy === null) model.event(next.event, { ...about, detail: again });
      else model.event("requeued", { ...about, detail: { ...again, by: requeuedBy } });
      break;
    }
    case "defer":
      defer(model, job);
      model.event("deferred", { ...about, detail: { ...detail, next_job_id: model.jobs.length } });
      break;
    case "block":
      job.status = "failed";
      Object.assign(task, { status: "blocked", blocked: ending.reason, head: next.head ?? task.head });
      model.event("blocked", { ...about, detail });
      break;
  }
  model.sawEnd(run);
  return { kind: "settled", next: next.kind };
};

const isSame = (run: ModelRun, ending: RunEnding): boolean =>
  run.outcome === ending.outcome && run.class === ending.class && run.reason === ending.reason;

interface Place {
  task: ModelTask;
  job: ModelJob;
  run: ModelRun;
}

const follow = (model: Model, { task, job, run }: Place, result: RunResult): Following => {
  const stage = stageOf(job.stage);
  const earlier = model.runsOf(job.id).filter(({ id }) => id < run.id);
  switch (result.kind) {
    case "passed": {
      const at = PIPELINE.stages.indexOf(stage);
      return { kind: "advance", to: PIPELINE.stages[at + 1]?.name ?? DONE_STAGE, head: result.head };
    }
    case "turned_down": {
      const mayReturn = result.to !== "blocked" && task.returns < PIPELINE.maxReturns;
      return mayReturn ? { kind: "return", to: result.to, head: result.head } : { kind: "block", head: result.head };
    }
    case "needs_person":
    case "defers_used_up":
      return { kind: "block", head: null };
    case "deferred": {
      const isLate = job.firstMarkerMs !== null && model.clock.now() - job.firstMarkerMs > CONFIG.stagingDeferMaxMs;
      return job.markers >= CONFIG.stagingMaxDefers || isLate ? { kind: "block", head: null } : { kind: "defer" };
    }
    case "branch_moved": {
      const n = lastInARow(earlier, (one) => one.class === "branch_moved");
      return n + 1 < 10
        ? {
            ...{ kind: "again", event: "requeued", attempt: job.attempt },
            delayMs: n === 0 ? 0 : delayMs(10_000, n, 300_000, RANDOM),
          }
        : { kind: "block", head: null };
    }
    case "ended":
      break;
  }
  if (!stage.rerun && result.runsAgentAgain) return { kind: "block", head: null };
  const { attempt } = job;
  switch (result.outcome) {
    case "failed":
    case "timed_out":
    case "stalled":
      return attempt < job.maxAttempts
        ? { kind: "again", event: "retried", attempt: attempt + 1, delayMs: delayMs(10_000, attempt, 300_000, RANDOM) }
        : { kind: "block", head: null };
    case "tool_error": {
      if (result.class === "stager_unreachable") {
        const n = lastInARow(earlier, (one) => one.class === "stager_unreachable") + 1;
        return { kind: "again", event: "requeued", attempt, delayMs: delayMs(5_000, n, 60_000, 0) };
      }
      const n = earlier.filter((one) => one.outcome === "tool_error" && one.class !== "stager_unreachable").length + 1;
      return n < 10
        ? { kind: "again", event: "retried", attempt, delayMs: delayMs(10_000, n, 300_000, RANDOM) }
        : { kind: "block", head: null };
    }
    case "interrupted":
      return lastInARow(earlier, (one) => one.outcome === "interrupted") + 1 < 5
        ? { kind: "again", event: "requeued", attempt, delayMs: 0 }
        : { kind: "block", head: null };
    case "cancelled":
      throw new Error("a cancelled run has been settled by its cancel");
  }
};

const delayMs = (firstMs: number, n: number, mostMs: number, jitter: number): number =>
  Math.round(Math.min(firstMs * 2 ** (n - 1), mostMs) * (1 + 0.1 * jitter));

const lastInARow = (runs: readonly ModelRun[], holds: (run: ModelRun) => boolean): number => {
  const last = runs.findLastIndex((run) => !holds(run));
  return runs.length - 1 - last;
};

/** The task comes into a stage: with a job, to wait for a person, or to the end. */
const enter = (model: Model, task: ModelTask, stage: string, head: string, why: string | null): void => {
  Object.assign(task, { stage, head });
  if (stage === DONE_STAGE) {
    task.status = "done";
    model.event("done", { taskId: task.id, detail: { head } });
  } else if (stageOf(stage).approval) {
    task.status = "waiting";
    model.event("waiting", { taskId: task.id, detail: { stage } });
  } else {
    model.enqueue(task, why);
  }
};

const defer = (model: Model, job: ModelJob): void => {
  job.status = "done";
  const nowMs = model.clock.now();
  const { taskId, stage, agent, maxAttempts, priority, why, markers, firstMarkerMs } = job;
  model.addJob({
    ...{ taskId, stage, agent, maxAttempts, priority, why },
    markers: markers + 1,
    // The clock may have been set back since the first: what counts is the earliest time that a marker names.
    firstMarkerMs: Math.min(firstMarkerMs ?? nowMs, nowMs),
    availableAtMs: nowMs + Math.min(CONFIG.stagingDeferDelayMs * 2 ** markers, 600_000),
  });
};
