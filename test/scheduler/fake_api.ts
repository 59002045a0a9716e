import type { QueueView } from "@orchestrator/shared/schemas/queue.ts";
import type { Job, Run, Task, TaskEvent } from "@orchestrator/shared/schemas/rows.ts";
import type { SchedulerApi } from "../../services/scheduler/scheduler_api.ts";

const AT = "2025-06-01T12:00:00.000Z";

export const aTask = (changes: Partial<Task> = {}): Task => ({
  id: 1,
  workItemId: "ORCH-115",
  title: "A title",
  description: "",
  repo: "shop",
  branch: "work/ORCH-115",
  baseBranch: "main",
  head: null,
  stage: "analysis",
  status: "active",
  priority: 0,
  returns: 0,
  leaseRunId: null,
  blockedReason: null,
  createdAt: AT,
  updatedAt: AT,
  ...changes,
});

export const aJob = (changes: Partial<Job> = {}): Job => ({
  id: 3,
  taskId: 1,
  stage: "analysis",
  agent: "analyst",
  status: "running",
  priority: 0,
  taskContent: "",
  attempt: 1,
  maxAttempts: 3,
  availableAt: AT,
  runId: 5,
  error: null,
  createdAt: AT,
  startedAt: AT,
  finishedAt: null,
  ...changes,
});

export const aRun = (changes: Partial<Run> = {}): Run => ({
  id: 5,
  jobId: 3,
  taskId: 1,
  stage: "analysis",
  agent: "analyst",
  attempt: 1,
  modelUsed: null,
  pid: 4242,
  pidStarted: 99,
  exitCode: null,
  signal: null,
  outcome: null,
  outcomeClass: null,
  reason: null,
  logPath: null,
  startedAt: AT,
  exitedAt: null,
  finishedAt: null,
  ...changes,
});

export const anEvent = (changes: Partial<TaskEvent> = {}): TaskEvent => ({
  id: 7,
  taskId: 1,
  jobId: 3,
  runId: null,
  at: AT,
  kind: "created",
  detail: { anyKey: "stays as it is" },
  ...changes,
});

export const aQueueView = (): QueueView => ({
  time: AT,
  scheduler: { instance_id: "i-1", holder: { host: "h", pid: 1 }, epoch: 3, started_at: AT },
  paused: [{ what: "agent:developer", reason: "3 tasks in a row: git_push", since: AT }],
  jobs: { queued: 1, running: 1, done: 0, failed: 0, cancelled: 0, oldest_queued_s: 1.5 },
  tasks: { by_status: { active: 2, waiting: 0, blocked: 0, done: 0, cancelled: 0 }, by_stage: { analysis: 2 } },
  running: [
    {
      job_id: 3,
      run_id: 5,
      task_id: 1,
      work_item_id: "ORCH-115",
      agent: "analyst",
      stage: "analysis",
      phase: "executing",
      started_at: AT,
      pid: 4242,
    },
  ],
  finalizer_liveness: { "3": { run_id: 5, stage: "analysis", started_ts: 1_750_000_000.5 } },
  reaper: {
    sweeps: 0,
    skipped_live_finalizer: 0,
    finalizer_expired: 0,
    reaped_requeued: 0,
    reaped_failed: 0,
    orphans_killed: 0,
    leaked_marks: 0,
    settle_superseded: 0,
    errors: 0,
    last_sweep_at: null,
    last_sweep_ms: null,
  },
  staging_runner: { runs: 0, success: 0, failed: 0, tool_error: 0, deferred: 0 },
});

/** Answers as the scheduler would where all goes well; a test replaces what it is about. */
export const fakeApi = (changes: Partial<SchedulerApi> = {}): SchedulerApi => ({
  createTask: async (input) => ({
    kind: "created",
    task: aTask({ workItemId: input.workItemId, title: input.title, priority: input.priority }),
  }),
  listTasks: async () => ({ tasks: [], nextCursor: null }),
  findTask: async () => null,
  cancelTask: async () => ({ kind: "ok", task: aTask({ status: "cancelled" }) }),
  retryTask: async () => ({ kind: "ok", task: aTask() }),
  approveTask: async () => ({ kind: "ok", task: aTask() }),
  returnTask: async () => ({ kind: "ok", task: aTask() }),
  listJobs: async () => ({ jobs: [], nextCursor: null }),
  findJob: async () => null,
  findRun: async () => null,
  openLog: async () => ({ kind: "no_run" }),
  pauseQueue: async () => ({ kind: "ok", paused: [] }),
  resumeQueue: async () => ({ kind: "ok", paused: [] }),
  queueView: async () => aQueueView(),
  queueText: async () => "# TYPE orchestrator_scheduler_epoch gauge\norchestrator_scheduler_epoch 3\n",
  events: { lastId: async () => 0, after: async () => [], more: async () => false },
  readiness: async () => [],
  ...changes,
});
