import type { JobHold } from "./end_job.ts";
import type { Tx } from "./tx.ts";

/**
 * Records where a task's branch stands when a run begins: where the branch begins at all, or at a commit of the task's own
 * whose settle was lost. Only for the run that the task is leased to.
 */
export const recordHead = async (tx: Tx, { taskId, runId }: JobHold, commit: string): Promise<void> => {
  await tx.run("UPDATE tasks SET head = ?, updated_at = ? WHERE id = ? AND lease_run_id = ?", [
    commit,
    tx.now,
    taskId,
    runId,
  ]);
};
