import type { Task } from "../schemas/rows.ts";
import { TASK_COLUMNS } from "./columns.ts";
import type { Tx } from "./tx.ts";

/** How a task is named: by its id, or by its work item's. */
export type TaskKey = { id: number } | { workItemId: string };

/** A task as it stands inside a transaction that is going to change it; null where there is none. */
export const readTask = async (tx: Pick<Tx, "query">, key: TaskKey): Promise<Task | null> => {
  const [column, value] = "id" in key ? (["id", key.id] as const) : (["work_item_id", key.workItemId] as const);
  const [task] = await tx.query<Task>(`SELECT ${TASK_COLUMNS} FROM tasks WHERE ${column} = ?`, [value]);
  return task ?? null;
};
