import type { JobHold } from "./end_job.ts";
import type { Tx } from "./storage.ts";

/** Records where a task's branch begins, once: a head that a settle has recorded is left alone. */
export const recordHead = async (tx: Tx, { taskId, runId }: JobHold, commit: string): Promise<void> => {
  await tx.run("UPDATE tasks SET head = ?, updated_at = ? WHERE id = ? AND lease_run_id = ? AND head IS NULL", [
    commit,
    tx.now,
    taskId,
    runId,
  ]);
};
