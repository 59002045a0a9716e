import type { Task } from "../schemas/rows.ts";
import { insertRows } from "./insert_rows.ts";
import type { Tx } from "./tx.ts";

export type NewTaskRow = Pick<
  Task,
  "workItemId" | "title" | "description" | "repo" | "branch" | "baseBranch" | "priority" | "stage" | "status"
>;

export type InsertTaskResult = { kind: "inserted"; task: Task } | Refusal;

type Refusal =
  | { kind: "work_item_exists" }
  /** Another unfinished task works on that branch. */
  | { kind: "branch_taken"; by: string };

/**
 * Writes new tasks, but those that the unique indexes refuse: because of what is stored, or of one before it in the list.
 * @returns what became of each, in order.
 */
export const insertTasks = async (tx: Tx, tasks: readonly NewTaskRow[]): Promise<InsertTaskResult[]> => {
  const rows = tasks.map((task) => ({
    work_item_id: task.workItemId,
    title: task.title,
    description: task.description,
    repo: task.repo,
    branch: task.branch,
    base_branch: task.baseBranch,
    stage: task.stage,
    status: task.status,
    priority: task.priority,
    created_at: tx.now,
    updated_at: tx.now,
  }));
  const options = { returning: "work_item_id, repo, branch", skipRefused: true };
  const inserted = await insertRows<Pick<Task, "id" | "workItemId" | "repo" | "branch">>(tx, "tasks", rows, options);
  const ids = new Map(inserted.map((row) => [nameOf(row), row.id]));
  const results: InsertTaskResult[] = [];
  for (const task of tasks) {
    const id = ids.get(nameOf(task));
    // Of two that are alike the first was inserted.
    ids.delete(nameOf(task));
    if (id === undefined) results.push(await whyRefused(tx, task));
    else results.push({ kind: "inserted", task: newTask(tx, id, task) });
  }
  return results;
};

const nameOf = ({ workItemId, repo, branch }: Pick<Task, "workItemId" | "repo" | "branch">): string =>
  JSON.stringify([workItemId, repo, branch]);

const newTask = (tx: Tx, id: number, task: NewTaskRow): Task => {
  tx.taskMoved(null, { stage: task.stage, status: task.status });
  const { now } = tx;
  const fresh = { head: null, returns: 0, leaseRunId: null, blockedReason: null, createdAt: now, updatedAt: now };
  return { ...task, id, ...fresh };
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
