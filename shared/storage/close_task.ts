import type { Task } from "../schemas/rows.ts";
import type { Tx } from "./tx.ts";

/**
 * Ends a task as `cancelled`; its branch is free for another one. Its stage stays, and says how far it came.
 * @returns false where it is no longer in the status that `task` has.
 */
export const closeTask = async (tx: Tx, task: Pick<Task, "id" | "stage" | "status">): Promise<boolean> => {
  const changed = await tx.run(
    `UPDATE tasks SET status = 'cancelled', lease_run_id = NULL, blocked_reason = NULL, updated_at = ?
     WHERE id = ? AND status = ?`,
    [tx.now, task.id, task.status],
  );
  if (changed === 0) return false;
  tx.taskMoved(task, { stage: task.stage, status: "cancelled" });
  return true;
};
