import { findJob, findRun, listJobs } from "@orchestrator/shared/storage/read_jobs.ts";
import { findTask, listTasks } from "@orchestrator/shared/storage/read_tasks.ts";
import type { Holder } from "@orchestrator/shared/storage/take_lease.ts";
import { approveTask } from "./approve_task.ts";
import { cancelTask } from "./cancel_task.ts";
import { taskCreator } from "./create_task.ts";
import { EventFeed } from "./event_feed.ts";
import type { SchedulerMetrics } from "./metrics/scheduler_metrics.ts";
import { openLog } from "./open_log.ts";
import { pauseQueue } from "./pause_queue.ts";
import { type QueueViewContext, queueView } from "./queue_view.ts";
import { resumeQueue } from "./resume_queue.ts";
import { retryTask } from "./retry_task.ts";
import { returnTask } from "./return_task.ts";
import type { RunContext } from "./run_context.ts";
import type { PageQuery, SchedulerApi } from "./scheduler_api.ts";

/** What the API works with: the part of the run context that answers and decides, and nothing that runs agents or git. */
export type ApiContext = QueueViewContext & Pick<RunContext, "runLogs">;

export interface LocalApiOptions {
  /** Who holds the scheduler lock: this process. */
  holder: Holder;
  metrics: SchedulerMetrics;
  readiness: SchedulerApi["readiness"];
}

/** The scheduler's API as this process carries it out. */
export const createLocalApi = (context: ApiContext, { holder, metrics, readiness }: LocalApiOptions): SchedulerApi => {
  const { storage } = context;
  const view = () => queueView(context, { holder, startedAt: holder.since });
  const deps = { ...context, pipeline: context.config.pipeline };
  return {
    createTask: taskCreator(context),
    listTasks: async ({ status, stage, ...query }) => {
      const { rows, nextCursor } = await page(query, (range) => listTasks(storage, { status, stage, ...range }));
      return { tasks: rows, nextCursor };
    },
    findTask: (key) => findTask(storage, key),
    cancelTask: (key, input) => cancelTask(deps, key, input),
    retryTask: (key, input) => retryTask(deps, key, input),
    approveTask: (key, input) => approveTask(deps, key, input),
    returnTask: (key, input) => returnTask(deps, key, input),
    listJobs: async ({ status, task_id: taskId, ...query }) => {
      const { rows, nextCursor } = await page(query, (range) => listJobs(storage, { status, taskId, ...range }));
      return { jobs: rows, nextCursor };
    },
    findJob: (id) => findJob(storage, id),
    findRun: (id) => findRun(storage, id),
    openLog: (runId, query) => openLog(context, runId, query),
    pauseQueue: (target) => pauseQueue(context, target),
    resumeQueue: (target) => resumeQueue(context, target),
    queueView: view,
    queueText: async () => metrics.text(await view()),
    events: new EventFeed(storage),
    readiness,
  };
};

/** Reads one row more than the page holds: whether there is another page is known without counting. */
const page = async <T extends { id: number }>(
  { limit, cursor }: PageQuery,
  list: (range: { limit: number; beforeId: number | undefined }) => Promise<T[]>,
): Promise<{ rows: T[]; nextCursor: number | null }> => {
  const found = await list({ limit: limit + 1, beforeId: cursor });
  const rows = found.slice(0, limit);
  return { rows, nextCursor: found.length > limit ? (rows.at(-1)?.id ?? null) : null };
};
