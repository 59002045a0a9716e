import type { TaskStatus } from "../domain.ts";
import type { Job, Run, Task, TaskEvent } from "../schemas/rows.ts";
import { EVENT_COLUMNS, JOB_COLUMNS, RUN_COLUMNS, TASK_COLUMNS, toEvent } from "./columns.ts";
import type { SqlValue } from "./connection.ts";
import type { Storage } from "./storage.ts";

export interface TaskFilter {
  status?: TaskStatus | undefined;
  stage?: string | undefined;
  /** Only tasks with a smaller id: where the page before this one ended. */
  beforeId?: number | undefined;
  limit: number;
}

/** A page of tasks, newest first. Ids only grow, so a page stays right while tasks come in. */
export const listTasks = (storage: Pick<Storage, "query">, filter: TaskFilter): Promise<Task[]> => {
  const conditions: string[] = [];
  const args: SqlValue[] = [];
  const where = (condition: string, value: SqlValue | undefined): void => {
    if (value === undefined) return;
    conditions.push(condition);
    args.push(value);
  };
  where("status = ?", filter.status);
  where("stage = ?", filter.stage);
  where("id < ?", filter.beforeId);
  const clause = conditions.length > 0 ? `WHERE ${conditions.join(" AND ")}` : "";
  return storage.query<Task>(`SELECT ${TASK_COLUMNS} FROM tasks ${clause} ORDER BY id DESC LIMIT ?`, [
    ...args,
    filter.limit,
  ]);
};

/** How much of a task's history one answer holds; the newest of it. A task that went round for weeks must not fill the memory. */
const HISTORY_LIMIT = 1000;

export interface TaskHistory {
  task: Task;
  jobs: Job[];
  runs: Run[];
  events: TaskEvent[];
}

/** A task by id or work item id, with its jobs, runs and events, oldest first, as one moment saw them. */
export const findTask = async (
  storage: Pick<Storage, "query" | "snapshot">,
  key: { id: number } | { workItemId: string },
): Promise<TaskHistory | null> => {
  const [column, value] = "id" in key ? (["id", key.id] as const) : (["work_item_id", key.workItemId] as const);
  const task = `SELECT id FROM tasks WHERE ${column} = ?`;
  const history = (table: string, columns: string) => ({
    sql: `SELECT ${columns} FROM ${table} WHERE task_id = (${task}) ORDER BY id DESC LIMIT ${HISTORY_LIMIT}`,
    args: [value],
  });
  const [tasks, jobs, runs, events] = await storage.snapshot([
    { sql: `SELECT ${TASK_COLUMNS} FROM tasks WHERE ${column} = ?`, args: [value] },
    history("jobs", JOB_COLUMNS),
    history("agent_runs", RUN_COLUMNS),
    history("task_events", EVENT_COLUMNS),
  ]);
  const [found] = tasks as unknown as Task[];
  if (!found) return null;
  return {
    task: found,
    jobs: (jobs as unknown as Job[]).reverse(),
    runs: (runs as unknown as Run[]).reverse(),
    events: (events as unknown as Parameters<typeof toEvent>[0][]).map(toEvent).reverse(),
  };
};
