import { jobSchema, runSchema, type TaskEvent, taskSchema } from "../schemas/rows.ts";

/** The columns of each table, from the schemas, so that a row read is a row described. */
const columns = (schema: { entries: object }, alias = ""): string =>
  Object.keys(schema.entries)
    .map((name) => alias + name)
    .join(", ");

export const TASK_COLUMNS = columns(taskSchema);
export const JOB_COLUMNS = columns(jobSchema);
export const RUN_COLUMNS = columns(runSchema);
export const EVENT_COLUMNS = "id, task_id, job_id, run_id, at, kind, detail";

/** An event row with its detail parsed. */
export const toEvent = (row: Omit<TaskEvent, "detail"> & { detail: string }): TaskEvent => ({
  ...row,
  detail: JSON.parse(row.detail) as TaskEvent["detail"],
});
