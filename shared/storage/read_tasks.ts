import type { TaskStatus } from "../domain.ts";
import type { Job, Run, Task, TaskEvent } from "../schemas/rows.ts";
import { EVENT_COLUMNS, JOB_COLUMNS, RUN_COLUMNS, TASK_COLUMNS, toEvent } from "./columns.ts";
import { pageQuery } from "./page_query.ts";
import type { TaskKey } from "./read_task.ts";
import type { Storage } from "./storage.ts";

export interface TaskFilter {
  status?: TaskStatus | undefined;
  stage?: string | undefined;
  /** Only tasks with a smaller id: where the page before this one ended. */
  beforeId?: number | undefined;
  limit: number;
}

/** A page of tasks, newest first. Ids only grow, so a page stays right while tasks come in. */
export const listTasks = (
  storage: Pick<Storage, "query">,
  { status, stage, beforeId, limit }: TaskFilter,
): Promise<Task[]> => {
  const { sql, args } = pageQuery(TASK_COLUMNS, "tasks", { status, stage }, { beforeId, limit });
  return storage.query<Task>(sql, args);
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
  key: TaskKey,
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
