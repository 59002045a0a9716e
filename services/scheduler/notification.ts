import { toSnake } from "@orchestrator/shared/case.ts";
import type { NOTIFY_ON } from "@orchestrator/shared/config/config_schema.ts";
import { DONE_STAGE } from "@orchestrator/shared/domain.ts";
import type { Notification } from "@orchestrator/shared/schemas/notification.ts";
import type { Task, TaskEvent } from "@orchestrator/shared/schemas/rows.ts";

export type NotifyOn = (typeof NOTIFY_ON)[number];

/** An event that somebody is to be told of. */
export interface Notice {
  on: NotifyOn;
  event: TaskEvent;
  /** What the event itself does not say; null: its own reason counts. */
  reason: string | null;
}

/** By which word of `notify.on` an event is told; null: by none. */
export const wordOf = ({ kind }: Pick<TaskEvent, "kind">): NotifyOn | null =>
  kind === "waiting" || kind === "blocked" || kind === "done" || kind === "paused" ? kind : null;

/**
 * The notification of an event.
 * @param task null for what befalls the queue itself. It may have moved on since: of stage and status the event's own count.
 */
export const toNotification = ({ on, event, reason }: Notice, task: Task | null): Notification => {
  const { kind, detail } = event;
  return {
    on,
    ...toSnake(event),
    work_item_id: task?.workItemId ?? null,
    repo: task?.repo ?? null,
    branch: task?.branch ?? null,
    stage: kind === "done" ? DONE_STAGE : (textOf(detail.stage) ?? task?.stage ?? null),
    status: task === null ? null : kind === "waiting" || kind === "blocked" || kind === "done" ? kind : task.status,
    reason: reason ?? textOf(detail.reason),
  };
};

const textOf = (value: unknown): string | null => (typeof value === "string" ? value : null);
