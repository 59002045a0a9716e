import type { InputError } from "@orchestrator/shared/http/problem.ts";
import type { NewTask } from "@orchestrator/shared/schemas/new_task.ts";
import type { QueueView } from "@orchestrator/shared/schemas/queue.ts";
import type { Job, Run, Task, TaskEvent } from "@orchestrator/shared/schemas/rows.ts";

export type CreateTaskResult =
  | { kind: "created"; task: Task }
  | { kind: "work_item_exists" | "branch_taken" | "unknown_repo"; detail: string }
  | { kind: "invalid"; errors: InputError[] };

export interface TaskQuery {
  status?: Task["status"];
  stage?: string;
  /** 1 to 200. */
  limit: number;
  /** Goes on after the task with this id: the `nextCursor` of the page before. */
  cursor?: number;
}

/** All that the HTTP routes know of the scheduler. The routes translate; what happens is decided behind this. */
export interface SchedulerApi {
  /** When it answers `created`, the task and its first job are in the database. */
  createTask(input: NewTask): Promise<CreateTaskResult>;
  /** `nextCursor` is the id of the page's last task, or null where there are no more. */
  listTasks(query: TaskQuery): Promise<{ tasks: Task[]; nextCursor: number | null }>;
  /** Text of digits is an id (a safe integer); anything else is a work item id, which begins with a letter. */
  findTask(idOrWorkItemId: string): Promise<{ task: Task; jobs: Job[]; runs: Run[]; events: TaskEvent[] } | null>;
  /** Its cost does not grow with history. */
  queueView(): Promise<QueueView>;
  readiness(): { ready: boolean; reasons: string[] };
}
