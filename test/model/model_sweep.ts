import { STAGING_STAGE } from "@orchestrator/shared/domain.ts";
import type { Ended } from "../../services/scheduler/run_result.ts";
import { type Model, type ModelJob, mayRunAgain } from "./model.ts";
import { predictSettle } from "./model_settle.ts";
import { CONFIG } from "./surroundings.ts";

/** One sweep of the reaper, row by row of the contract's table. */
export const predictSweep = (model: Model): void => {
  const { process } = model;
  const running = model.running();
  const ids = new Set(running.map((job) => job.id));
  for (const jobId of process.unownedSince.keys()) if (!ids.has(jobId)) process.unownedSince.delete(jobId);
  for (const job of running) sweepJob(model, job, job.runId!);
  for (const [jobId, { runId }] of process.marks) {
    if (ids.has(jobId) || process.active.has(jobId)) continue;
    process.clearMark(jobId, runId);
    process.counts.leakedMarks += 1;
  }
  process.counts.sweeps += 1;
};

const sweepJob = (model: Model, job: ModelJob, runId: number): void => {
  const { process } = model;
  const { counts, unownedSince } = process;
  const nowMs = model.clock.monotonicMs();
  const owner = process.owner(job.id, runId);
  let mark = process.marks.get(job.id);
  if (mark && process.active.get(job.id) !== mark.runId) {
    process.marks.delete(job.id);
    counts.leakedMarks += 1;
    mark = undefined;
  }
  const owned = () => unownedSince.delete(job.id);
  if (mark) {
    owned();
    if (process.markAgeMs(mark) <= CONFIG.finalizerMaxMs) {
      counts.skippedLiveFinalizer += 1;
      return;
    }
    takeBack(model, job, "tool_error", "finalizer_expired");
    counts.finalizerExpired += 1;
    return;
  }
  const ageMs = owner ? nowMs - owner.phaseSinceMs : 0;
  if (owner?.phase === "launching") {
    owned();
    if (ageMs > CONFIG.launchTimeoutMs)
      process.end(owner, { outcome: "tool_error", class: "launch_timeout", reason: "" });
    return;
  }
  if (owner?.phase === "executing" && owner.workerAlive) {
    owned();
    if (ageMs > CONFIG.jobTimeoutMs) process.end(owner, { outcome: "timed_out", class: null, reason: "" });
    else if (nowMs - owner.lastOutputMs > CONFIG.stallTimeoutMs)
      process.end(owner, { outcome: "stalled", class: null, reason: "" });
    return;
  }
  const seen = unownedSince.get(job.id);
  if (seen?.runId !== runId) {
    unownedSince.set(job.id, { runId, sinceMs: nowMs });
    return;
  }
  if (nowMs - seen.sinceMs < CONFIG.reaperGraceMs) return;
  owned();
  const outcome = model.run(runId).mayHaveBegun || job.stage === STAGING_STAGE ? "failed" : "interrupted";
  if (takeBack(model, job, outcome, "lost") === "again") counts.reapedRequeued += 1;
  else counts.reapedFailed += 1;
};

const takeBack = (
  model: Model,
  job: ModelJob,
  outcome: Ended["outcome"],
  endedAs: "lost" | "finalizer_expired",
): string => {
  const run = model.run(job.runId!);
  const runsAgentAgain = mayRunAgain(run);
  const by = endedAs === "lost" ? "reaper" : endedAs;
  const settlement = predictSettle(
    model,
    run.id,
    { kind: "ended", outcome, class: endedAs, reason: "", runsAgentAgain },
    by,
  );
  model.process.clearMark(job.id, run.id);
  model.process.forget(job.id, run.id);
  return settlement.kind === "settled" ? settlement.next : settlement.kind;
};
