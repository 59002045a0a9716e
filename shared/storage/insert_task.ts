import type { Task } from "../schemas/rows.ts";
import { TASK_COLUMNS } from "./columns.ts";
import type { Tx } from "./storage.ts";

export type NewTaskRow = Pick<
  Task,
  "workItemId" | "title" | "description" | "repo" | "branch" | "baseBranch" | "priority" | "stage" | "status"
>;

export type InsertTaskResult =
  | { kind: "inserted"; task: Task }
  | { kind: "work_item_exists" }
  /** Another unfinished task works on that branch. */
  | { kind: "branch_taken"; by: string };

/** Writes a new task. What stands in its way is read in the same transaction; the unique indexes stand behind it. */
export const insertTask = async (tx: Tx, task: NewTaskRow): Promise<InsertTaskResult> => {
  const [same] = await tx.query("SELECT id FROM tasks WHERE work_item_id = ?", [task.workItemId]);
  if (same) return { kind: "work_item_exists" };
  const [holder] = await tx.query<{ workItemId: string }>(
    "SELECT work_item_id FROM tasks WHERE repo = ? AND branch = ? AND status IN ('active', 'waiting', 'blocked')",
    [task.repo, task.branch],
  );
  if (holder) return { kind: "branch_taken", by: holder.workItemId };
  const [row] = await tx.query<Task>(
    `INSERT INTO tasks (work_item_id, title, description, repo, branch, base_branch, stage, status, priority, created_at, updated_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING ${TASK_COLUMNS}`,
    [
      task.workItemId,
      task.title,
      task.description,
      task.repo,
      task.branch,
      task.baseBranch,
      task.stage,
      task.status,
      task.priority,
      tx.now,
      tx.now,
    ],
  );
  tx.taskMoved(null, { stage: task.stage, status: task.status });
  return { kind: "inserted", task: row! };
};
