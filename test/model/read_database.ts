import { type eventSchema, jobSchema, runSchema, taskSchema } from "@orchestrator/shared/schemas/rows.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";
import type * as v from "valibot";

const TASK = [
  ...["id", "work_item_id", "repo", "branch", "head", "stage", "status", "priority", "returns", "lease_run_id"],
  ...["blocked_reason", "updated_at"],
] as const;
const JOB = [
  ...["id", "task_id", "stage", "agent", "status", "priority", "task_content", "attempt", "max_attempts"],
  ...["available_at", "run_id", "finished_at"],
] as const;
const RUN = [
  ...["id", "job_id", "task_id", "attempt", "pid_started", "exit_code", "signal", "outcome", "outcome_class"],
  "finished_at",
] as const;
const EVENT = ["id", "task_id", "job_id", "run_id", "at", "kind", "detail"] as const;
const PAUSE = ["what", "reason", "since"] as const;

export type TaskRow = Pick<v.InferOutput<typeof taskSchema>, (typeof TASK)[number]>;
export type JobRow = Pick<v.InferOutput<typeof jobSchema>, (typeof JOB)[number]>;
export type RunRow = Pick<v.InferOutput<typeof runSchema>, (typeof RUN)[number]>;
export type EventRow = v.InferOutput<typeof eventSchema>;

export interface Tables {
  tasks: TaskRow[];
  jobs: JobRow[];
  runs: RunRow[];
  /** Those after the id that was asked for. */
  events: EventRow[];
  paused: { what: string; reason: string; since: string }[];
}

/** The database makes one text of a table: that is many times quicker than to fetch its rows one value at a time. */
const asJson = (table: string, columns: readonly string[], order: string, where = ""): string => {
  const fields = columns.map((column) => `'${column}', ${column === "detail" ? "json(detail)" : column}`).join(", ");
  return `(SELECT json_group_array(json_object(${fields})) FROM (SELECT * FROM ${table} ${where} ORDER BY ${order}))`;
};

/** What is looked at after each step; all the columns there are would take half as long again. */
const TABLES_SQL = `SELECT
  ${asJson("tasks", TASK, "id")} AS tasks,
  ${asJson("jobs", JOB, "id")} AS jobs,
  ${asJson("agent_runs", RUN, "id")} AS runs,
  ${asJson("queue_state", PAUSE, "since, what")} AS paused,
  ${asJson("task_events", EVENT, "id", "WHERE id > ?")} AS events`;

/** The database as one moment saw it; of the events those after `lastEventId`. */
export const readTables = async (storage: Pick<Storage, "query">, lastEventId: number): Promise<Tables> => {
  const [row] = await storage.query<Record<keyof Tables, string>>(TABLES_SQL, [lastEventId]);
  return Object.fromEntries(Object.entries(row!).map(([name, text]) => [name, JSON.parse(text)])) as unknown as Tables;
};

const ALL: Readonly<Record<string, readonly string[]>> = {
  tasks: Object.keys(taskSchema.entries),
  jobs: Object.keys(jobSchema.entries),
  agent_runs: Object.keys(runSchema.entries),
  task_events: EVENT,
  queue_state: PAUSE,
  scheduler_lease: ["id", "instance_id", "holder", "epoch", "expires_at"],
};

/** All that stands in the database, to see whether anything has changed. */
export const readWhole = async (storage: Pick<Storage, "query">): Promise<string> => {
  const parts = Object.entries(ALL).map(([table, columns]) => `${asJson(table, columns, "1")} AS ${table}`);
  const [row] = await storage.query(`SELECT ${parts.join(", ")}`);
  return JSON.stringify(row);
};
