import * as v from "valibot";
import type { CamelKeys } from "../case.ts";
import { EVENT_KINDS, JOB_STATUSES, OUTCOMES, TASK_STATUSES } from "../domain.ts";
import { count, id, time } from "./text.ts";

/** A row of `tasks`: one work item. */
export const taskSchema = v.object({
  id,
  work_item_id: v.string(),
  title: v.string(),
  description: v.string(),
  repo: v.string(),
  branch: v.string(),
  base_branch: v.string(),
  head: v.nullable(v.string()),
  stage: v.string(),
  status: v.picklist(TASK_STATUSES),
  priority: v.pipe(v.number(), v.integer()),
  returns: count,
  lease_run_id: v.nullable(id),
  blocked_reason: v.nullable(v.string()),
  created_at: time,
  updated_at: time,
});
export type Task = CamelKeys<v.InferOutput<typeof taskSchema>>;

/** A row of `jobs`: one stage of one task to be worked. */
export const jobSchema = v.object({
  id,
  task_id: id,
  stage: v.string(),
  agent: v.string(),
  status: v.picklist(JOB_STATUSES),
  priority: v.pipe(v.number(), v.integer()),
  task_content: v.string(),
  attempt: v.pipe(v.number(), v.integer(), v.minValue(1)),
  max_attempts: v.pipe(v.number(), v.integer(), v.minValue(1)),
  available_at: time,
  run_id: v.nullable(id),
  error: v.nullable(v.string()),
  created_at: time,
  started_at: v.nullable(time),
  finished_at: v.nullable(time),
});
export type Job = CamelKeys<v.InferOutput<typeof jobSchema>>;

/** A row of `agent_runs`: one attempt at a job. `outcome` is null until the run has been settled. */
export const runSchema = v.object({
  id,
  job_id: id,
  task_id: id,
  stage: v.string(),
  agent: v.string(),
  attempt: v.pipe(v.number(), v.integer(), v.minValue(1)),
  model_used: v.nullable(v.string()),
  pid: v.nullable(id),
  /** Field 22 of /proc/PID/stat (clock ticks since boot): with the pid it names one process, which a pid alone does not. */
  pid_started: v.nullable(count),
  exit_code: v.nullable(count),
  signal: v.nullable(v.string()),
  outcome: v.nullable(v.picklist(OUTCOMES)),
  outcome_class: v.nullable(v.string()),
  reason: v.nullable(v.string()),
  log_path: v.nullable(v.string()),
  started_at: time,
  exited_at: v.nullable(time),
  finished_at: v.nullable(time),
});
export type Run = CamelKeys<v.InferOutput<typeof runSchema>>;

/** What an event says beside its kind. Which keys stand in it depends on the kind. */
export const eventDetailSchema = v.record(v.string(), v.unknown());
export type EventDetail = v.InferOutput<typeof eventDetailSchema>;

/** A row of `task_events`; `task_id` is null for what befalls the queue itself. */
export const eventSchema = v.object({
  id,
  task_id: v.nullable(id),
  job_id: v.nullable(id),
  run_id: v.nullable(id),
  at: time,
  kind: v.picklist(EVENT_KINDS),
  detail: eventDetailSchema,
});
export type TaskEvent = CamelKeys<v.InferOutput<typeof eventSchema>>;
