import type { TaskPlace } from "./tally.ts";
import type { Tx } from "./tx.ts";

/** Stops a task until a person has decided. `head` is kept where it is unless a new commit was published. */
export const blockTask = async (
  tx: Tx,
  task: { id: number } & TaskPlace,
  { leaseRunId, reason, head }: { leaseRunId: number; reason: string; head: string | null },
): Promise<boolean> => {
  const changed = await tx.run(
    `UPDATE tasks SET status = 'blocked', blocked_reason = ?, head = coalesce(?, head), lease_run_id = NULL, updated_at = ?
     WHERE id = ? AND status = 'active' AND lease_run_id = ?`,
    [reason, head, tx.now, task.id, leaseRunId],
  );
  if (changed === 0) return false;
  tx.taskMoved(task, { stage: task.stage, status: "blocked" });
  return true;
};
