import type { Task } from "../schemas/rows.ts";
import type { Tx } from "./storage.ts";

export type NewTaskRow = Pick<
  Task,
  "workItemId" | "title" | "description" | "repo" | "branch" | "baseBranch" | "priority" | "stage" | "status"
>;

export type InsertTaskResult = { kind: "inserted"; task: Task } | Refusal;

type Refusal =
  | { kind: "work_item_exists" }
  /** Another unfinished task works on that branch. */
  | { kind: "branch_taken"; by: string };

/** Writes a new task, unless the unique indexes stand in its way. */
export const insertTask = async (tx: Tx, task: NewTaskRow): Promise<InsertTaskResult> => {
  const id = await tx.insert(
    `INSERT INTO tasks (work_item_id, title, description, repo, branch, base_branch, stage, status, priority, created_at, updated_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
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
  if (id === null) return whyRefused(tx, task);
  tx.taskMoved(null, { stage: task.stage, status: task.status });
  const { now } = tx;
  const fresh = { head: null, returns: 0, leaseRunId: null, blockedReason: null, createdAt: now, updatedAt: now };
  return { kind: "inserted", task: { ...task, id, ...fresh } };
};

/** Read in the transaction in which the row was refused. */
const whyRefused = async (tx: Tx, task: NewTaskRow): Promise<Refusal> => {
  const [same] = await tx.query("SELECT id FROM tasks WHERE work_item_id = ?", [task.workItemId]);
  if (same) return { kind: "work_item_exists" };
  const [holder] = await tx.query<{ workItemId: string }>(
    "SELECT work_item_id FROM tasks WHERE repo = ? AND branch = ? AND status IN ('active', 'waiting', 'blocked')",
    [task.repo, task.branch],
  );
  if (!holder) throw new Error(`the task ${task.workItemId} was refused by an index that is not known here`);
  return { kind: "branch_taken", by: holder.workItemId };
};
