import * as v from "valibot";
import { JOB_STATUSES, TASK_STATUSES } from "../domain.ts";
import { count, id, time } from "./text.ts";

const milliseconds = v.pipe(v.number(), v.minValue(0));
const seconds = v.pipe(v.number(), v.minValue(0));

const countEach = <const K extends readonly string[]>(keys: K) =>
  Object.fromEntries(keys.map((key) => [key, count])) as Record<K[number], typeof count>;

/** What the scheduler is doing with a job that is `running`. */
export const RUN_PHASES = ["launching", "executing", "finalizing"] as const;
export type RunPhase = (typeof RUN_PHASES)[number];

/** Why jobs are not claimed, in whole or in part. */
export const pauseSchema = v.object({
  what: v.pipe(v.string(), v.regex(/^(all|staging|agent:.+|repo:.+)$/)),
  reason: v.string(),
  since: time,
});

export const runningJobSchema = v.object({
  job_id: id,
  run_id: id,
  task_id: id,
  work_item_id: v.string(),
  agent: v.string(),
  stage: v.string(),
  phase: v.picklist(RUN_PHASES),
  started_at: time,
  /** Null while there is no process: before it has started, and where a stager works the job. */
  pid: v.nullable(id),
});

/** What the scheduler's staging-runner figures say: `runs` is the sum of the verdicts when nothing is in flight. */
export const stagingCountersSchema = v.object(countEach(["runs", "success", "failed", "tool_error", "deferred"]));
export type StagingCounters = v.InferOutput<typeof stagingCountersSchema>;

export const reaperCountersSchema = v.object({
  ...countEach([
    "sweeps",
    "skipped_live_finalizer",
    "finalizer_expired",
    "reaped_requeued",
    "reaped_failed",
    "orphans_killed",
    "leaked_marks",
    "settle_superseded",
    "errors",
  ]),
  last_sweep_at: v.nullable(time),
  last_sweep_ms: v.nullable(milliseconds),
});

/** The answer of the scheduler's `GET /queue`. It needs no token: no titles, descriptions or task contents stand in it. */
export const queueSchema = v.pipe(
  v.object({
    time,
    scheduler: v.object({
      instance_id: v.string(),
      holder: v.record(v.string(), v.unknown()),
      epoch: count,
      started_at: time,
    }),
    paused: v.array(pauseSchema),
    jobs: v.object({ ...countEach(JOB_STATUSES), oldest_queued_s: v.nullable(seconds) }),
    tasks: v.object({ by_status: v.object(countEach(TASK_STATUSES)), by_stage: v.record(v.string(), count) }),
    running: v.array(runningJobSchema),
    /** By job id: the finalizers at work now. */
    finalizer_liveness: v.record(v.string(), v.object({ run_id: id, stage: v.string(), started_ts: seconds })),
    reaper: reaperCountersSchema,
    staging_runner: stagingCountersSchema,
  }),
  v.metadata({ ref: "Queue" }),
);
export type QueueView = v.InferOutput<typeof queueSchema>;
