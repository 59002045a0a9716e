import type { TaskStatus } from "@orchestrator/shared/domain.ts";
import type { Tx } from "@orchestrator/shared/storage/tx.ts";

export interface StageMove {
  taskId: number;
  from: string;
  to: string;
  /** The run that the task is leased to: only its settle may move the task. Null: it is leased to none, a person moves it. */
  leaseRunId: number | null;
  /** What the task is once it stands in `to`: `waiting` for a stage that needs approval, `done` at the end. */
  status: Extract<TaskStatus, "active" | "waiting" | "done">;
  /** The commit that the settle records as the truth about the branch; null: it stays as it is. */
  head: string | null;
  /** True for a move backwards, which counts as a return. */
  isReturn: boolean;
}

/**
 * Moves a task from one stage to another, by compare-and-set on its id, its stage, its being active and its lease. This is
 * the only statement that changes `tasks.stage`.
 * @returns false where the premises no longer hold; nothing was changed then.
 */
export const advanceStage = async (tx: Tx, move: StageMove): Promise<boolean> => {
  const changed = await tx.run(
    `UPDATE tasks SET stage = ?, status = ?, head = coalesce(?, head), returns = returns + ?, lease_run_id = NULL, updated_at = ?
     WHERE id = ? AND stage = ? AND status = 'active' AND lease_run_id IS ?`,
    [move.to, move.status, move.head, move.isReturn ? 1 : 0, tx.now, move.taskId, move.from, move.leaseRunId],
  );
  if (changed === 0) return false;
  tx.taskMoved({ stage: move.from, status: "active" }, { stage: move.to, status: move.status });
  return true;
};
