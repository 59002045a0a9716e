import type { Task } from "../schemas/rows.ts";
import type { Tx } from "./tx.ts";

/**
 * Makes a task that waits or is blocked `active` again, in the stage where it stands. The caller gives it a job, or moves it,
 * in the same transaction.
 * @param returns what the count of its returns becomes.
 * @returns false where it is no longer in the status that `task` has.
 */
export const activateTask = async (
  tx: Tx,
  task: Pick<Task, "id" | "stage" | "status">,
  { returns }: { returns: number },
): Promise<boolean> => {
  const changed = await tx.run(
    `UPDATE tasks SET status = 'active', blocked_reason = NULL, returns = ?, updated_at = ?
     WHERE id = ? AND status = ? AND status IN ('waiting', 'blocked') AND lease_run_id IS NULL`,
    [returns, tx.now, task.id, task.status],
  );
  if (changed === 0) return false;
  tx.taskMoved(task, { stage: task.stage, status: "active" });
  return true;
};
