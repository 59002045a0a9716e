import { setImmediate } from "node:timers/promises";
import { cancelQueuedJob } from "@orchestrator/shared/storage/cancel_queued_job.ts";
import { closeTask } from "@orchestrator/shared/storage/close_task.ts";
import { endJob } from "@orchestrator/shared/storage/end_job.ts";
import { finishRun } from "@orchestrator/shared/storage/finish_run.ts";
import { readActiveJob } from "@orchestrator/shared/storage/read_active_job.ts";
import type { TaskKey } from "@orchestrator/shared/storage/read_task.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";
import type { Tx } from "@orchestrator/shared/storage/tx.ts";
import { actOnTask, type TaskActionResult } from "./act_on_task.ts";
import type { ActiveRuns, EndReason } from "./active_runs.ts";
import { must } from "./must.ts";

/**
 * Cancels an unfinished task. Task, job and run are recorded as cancelled in one transaction; only then is the run that was
 * under way ended, with the very ending that was recorded, so that its settle finds itself done. Its processes end after
 * this has returned, and what its agent left is kept.
 */
export const cancelTask = async (
  { storage, activeRuns }: { storage: Storage; activeRuns: ActiveRuns },
  key: TaskKey,
  { reason }: { reason?: string | undefined },
): Promise<TaskActionResult> => {
  const why = reason === undefined ? "a person cancelled the task" : `a person cancelled the task: ${reason}`;
  const ending: EndReason = { outcome: "cancelled", class: null, reason: why };
  const result = await actOnTask(storage, key, "cancel", async (tx, task) => {
    const job = await readActiveJob(tx, task.id);
    must(await closeTask(tx, task));
    const about = { taskId: task.id, jobId: job?.id ?? null, runId: job?.runId ?? null };
    await tx.event("cancelled", about, {
      stage: task.stage,
      by: "person",
      ...(reason === undefined ? {} : { reason }),
    });
    if (job === null) return { running: null };
    if (job.status === "queued") must(await cancelQueuedJob(tx, job.id, why));
    else await cancelRunningJob(tx, { taskId: task.id, jobId: job.id, runId: job.runId! }, ending);
    return { running: job.status === "running" ? { jobId: job.id, runId: job.runId! } : null };
  });
  if (result.kind !== "ok") return result;
  if (result.running !== null) await endActiveRun(activeRuns, result.running, ending);
  return { kind: "ok", task: result.task };
};

const cancelRunningJob = async (
  tx: Tx,
  hold: { taskId: number; jobId: number; runId: number },
  { outcome, class: outcomeClass, reason }: EndReason,
): Promise<void> => {
  must(await endJob(tx, hold, "cancelled", reason));
  await finishRun(tx, hold.runId, { outcome, class: outcomeClass, reason });
};

const endActiveRun = async (
  activeRuns: ActiveRuns,
  { jobId, runId }: { jobId: number; runId: number },
  ending: EndReason,
): Promise<void> => {
  // A claim that was committed together with the cancel stands among the active runs only a few promises later.
  await setImmediate();
  const run = activeRuns.get(jobId);
  if (run?.claim.run.id === runId) run.end(ending);
};
