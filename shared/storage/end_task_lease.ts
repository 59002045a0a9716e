import type { JobHold } from "./end_job.ts";
import type { Tx } from "./tx.ts";

/** Takes the task's lease from a run. @returns false where it was not this run's. */
export const endTaskLease = async (tx: Tx, { taskId, runId }: Pick<JobHold, "taskId" | "runId">): Promise<boolean> => {
  const changed = await tx.run(
    "UPDATE tasks SET lease_run_id = NULL, updated_at = ? WHERE id = ? AND lease_run_id = ?",
    [tx.now, taskId, runId],
  );
  return changed === 1;
};
