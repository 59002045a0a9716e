import { encodeCursor } from "@orchestrator/shared/http/cursor.ts";
import type { QueueView } from "@orchestrator/shared/schemas/queue.ts";
import type { eventSchema, jobSchema, runSchema, taskSchema } from "@orchestrator/shared/schemas/rows.ts";
import type * as v from "valibot";

/** One work item on its way, as the API's document shows it. */

const CREATED = "2026-03-02T09:00:00.000Z";
const STARTED = "2026-03-02T09:00:01.250Z";

export const exampleTask: v.InferOutput<typeof taskSchema> = {
  id: 42,
  work_item_id: "ORCH-115",
  title: "Answer /healthz with the commit",
  description: "So that a smoke check can tell which version is being served.",
  repo: "shop",
  branch: "work/ORCH-115",
  base_branch: "main",
  head: "1f0c2e7b9a4d5c6e8f7a0b1c2d3e4f5a6b7c8d9e",
  stage: "review",
  status: "active",
  priority: 0,
  returns: 0,
  lease_run_id: 81,
  blocked_reason: null,
  created_at: CREATED,
  updated_at: STARTED,
};

export const exampleJob: v.InferOutput<typeof jobSchema> = {
  id: 63,
  task_id: 42,
  stage: "review",
  agent: "reviewer",
  status: "running",
  priority: 0,
  task_content: "ORCH-115: Answer /healthz with the commit",
  attempt: 1,
  max_attempts: 3,
  available_at: CREATED,
  run_id: 81,
  error: null,
  created_at: CREATED,
  started_at: STARTED,
  finished_at: null,
};

export const exampleRun: v.InferOutput<typeof runSchema> = {
  id: 81,
  job_id: 63,
  task_id: 42,
  stage: "review",
  agent: "reviewer",
  attempt: 1,
  model_used: "claude-opus-4-8",
  pid: 4711,
  pid_started: 918273,
  exit_code: null,
  signal: null,
  outcome: null,
  outcome_class: null,
  reason: null,
  log_path: "/data/logs/81.log",
  started_at: STARTED,
  exited_at: null,
  finished_at: null,
};

export const exampleEvent: v.InferOutput<typeof eventSchema> = {
  id: 907,
  task_id: 42,
  job_id: 62,
  run_id: 80,
  at: CREATED,
  kind: "advanced",
  detail: { from: "development", to: "review", head: exampleTask.head },
};

export const exampleCursor = encodeCursor(42);

export const examplePaused: QueueView["paused"] = [
  { what: "agent:developer", reason: "out of credit until Monday", since: CREATED },
];

export const exampleQueue: QueueView = {
  time: "2026-03-02T09:00:05.000Z",
  scheduler: {
    instance_id: "0b3f6f0e-7f0c-4a51-9d43-6f2f7c1f9a10",
    holder: { host: "build-1", pid: 17, since: CREATED },
    epoch: 3,
    started_at: CREATED,
  },
  paused: examplePaused,
  jobs: { queued: 0, running: 1, done: 62, failed: 1, cancelled: 0, oldest_queued_s: null },
  tasks: {
    by_status: { active: 1, waiting: 0, blocked: 1, done: 40, cancelled: 0 },
    by_stage: { development: 1, review: 1, done: 40 },
  },
  running: [
    {
      job_id: 63,
      run_id: 81,
      task_id: 42,
      work_item_id: "ORCH-115",
      agent: "reviewer",
      stage: "review",
      phase: "executing",
      started_at: STARTED,
      pid: 4711,
    },
  ],
  finalizer_liveness: {},
  reaper: {
    sweeps: 12,
    skipped_live_finalizer: 1,
    finalizer_expired: 0,
    reaped_requeued: 0,
    reaped_failed: 0,
    orphans_killed: 0,
    leaked_marks: 0,
    settle_superseded: 0,
    errors: 0,
    last_sweep_at: CREATED,
    last_sweep_ms: 2,
  },
  staging_runner: { runs: 4, success: 3, failed: 1, tool_error: 0, deferred: 0 },
};

/** A few lines of `GET /queue` in the Prometheus text format. */
export const exampleMetrics =
  'orchestrator_jobs{status="queued"} 1\norchestrator_tasks{stage="analysis",status="active"} 2\norchestrator_scheduler_epoch 3\n';
