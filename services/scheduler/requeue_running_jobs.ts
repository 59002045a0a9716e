import { listRunning } from "@orchestrator/shared/storage/list_running.ts";
import { mayRunAgain } from "@orchestrator/shared/storage/record_run_progress.ts";
import { type SettleDeps, settleRun } from "./settle.ts";

/**
 * Puts every job that an earlier process left `running` back into the queue; its run was `interrupted`. Runs at start,
 * before the reaper: an empty finalizer registry is true only after this.
 * @returns how many there were.
 */
export const requeueRunningJobs = async (deps: SettleDeps): Promise<number> => {
  const left = await listRunning(deps.storage);
  for (const job of left) {
    await deps.points.reach("start.requeue", job.jobId);
    const reason = "the scheduler ended while it ran";
    const runsAgentAgain = mayRunAgain(job);
    await settleRun(
      deps,
      job.runId,
      { kind: "ended", outcome: "interrupted", class: "restart", reason, runsAgentAgain },
      "restart",
    );
  }
  return left.length;
};
