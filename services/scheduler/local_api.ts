import { findTask, listTasks } from "@orchestrator/shared/storage/read_tasks.ts";
import type { Holder } from "@orchestrator/shared/storage/take_lease.ts";
import { createTask } from "./create_task.ts";
import { type QueueViewContext, queueView } from "./queue_view.ts";
import type { SchedulerApi } from "./scheduler_api.ts";

/** What the API works with: the part of the run context that answers and decides, and nothing that runs agents or git. */
export type ApiContext = QueueViewContext;

export interface LocalApiOptions {
  /** Who holds the scheduler lock: this process. */
  holder: Holder;
  readiness: SchedulerApi["readiness"];
}

/** The scheduler's API as this process carries it out. */
export const createLocalApi = (context: ApiContext, { holder, readiness }: LocalApiOptions): SchedulerApi => {
  const { storage } = context;
  return {
    createTask: (input) => createTask(context, input),
    listTasks: async ({ limit, cursor, ...filter }) => {
      const tasks = await listTasks(storage, { ...filter, beforeId: cursor, limit: limit + 1 });
      const page = tasks.slice(0, limit);
      return { tasks: page, nextCursor: tasks.length > limit ? (page.at(-1)?.id ?? null) : null };
    },
    findTask: (key) => findTask(storage, /^\d+$/.test(key) ? { id: Number(key) } : { workItemId: key }),
    queueView: () => queueView(context, { holder, startedAt: holder.since }),
    readiness,
  };
};
