import type { InputError } from "@orchestrator/shared/http/problem.ts";
import type { PauseRequest } from "@orchestrator/shared/schemas/actions.ts";
import type { NewTask } from "@orchestrator/shared/schemas/new_task.ts";
import type { QueueView } from "@orchestrator/shared/schemas/queue.ts";
import type { Job, Run, Task, TaskEvent } from "@orchestrator/shared/schemas/rows.ts";
import type { TaskKey } from "@orchestrator/shared/storage/read_task.ts";
import type { TaskActionResult } from "./act_on_task.ts";
import type { EventFeed } from "./event_feed.ts";
import type { PauseResult } from "./pause_queue.ts";

export type CreateTaskResult =
  | { kind: "created"; task: Task }
  | { kind: "work_item_exists" | "branch_taken" | "unknown_repo"; detail: string }
  | { kind: "invalid"; errors: InputError[] };

/** A page of a list. */
export interface PageQuery {
  /** 1 to 200. */
  limit: number;
  /** Goes on after the row with this id: the `nextCursor` of the page before. */
  cursor?: number;
}

export interface TaskQuery extends PageQuery {
  status?: Task["status"];
  stage?: string;
}

export interface JobQuery extends PageQuery {
  status?: Job["status"];
  task_id?: number;
}

export interface LogQuery {
  /** Only the last so many bytes. */
  tail?: number;
  /** True: until the run has ended. */
  follow: boolean;
}

export type LogResult =
  /** `read` makes the text piece by piece, as it is asked for, until it ends or the signal is aborted. */
  { kind: "log"; read: (signal: AbortSignal) => AsyncGenerator<Uint8Array, void> } | { kind: "no_run" | "no_log" };

/** All that the HTTP routes know of the scheduler. The routes translate; what happens is decided behind this. */
export interface SchedulerApi {
  /** When it answers `created`, the task and its first job are in the database. */
  createTask(input: NewTask): Promise<CreateTaskResult>;
  /** `nextCursor` is the id of the page's last task, or null where there are no more. */
  listTasks(query: TaskQuery): Promise<{ tasks: Task[]; nextCursor: number | null }>;
  findTask(key: TaskKey): Promise<{ task: Task; jobs: Job[]; runs: Run[]; events: TaskEvent[] } | null>;
  cancelTask(key: TaskKey, input: { reason?: string }): Promise<TaskActionResult>;
  retryTask(key: TaskKey, input: { note?: string }): Promise<TaskActionResult>;
  approveTask(key: TaskKey, input: { stage: string }): Promise<TaskActionResult>;
  returnTask(key: TaskKey, input: { to: string; reason: string }): Promise<TaskActionResult>;
  listJobs(query: JobQuery): Promise<{ jobs: Job[]; nextCursor: number | null }>;
  findJob(id: number): Promise<{ job: Job; runs: Run[] } | null>;
  findRun(id: number): Promise<Run | null>;
  openLog(runId: number, query: LogQuery): Promise<LogResult>;
  pauseQueue(target: PauseRequest): Promise<PauseResult>;
  resumeQueue(target: PauseRequest): Promise<PauseResult>;
  /** Its cost does not grow with history. */
  queueView(): Promise<QueueView>;
  /** The same figures, and those that only metrics have, in the Prometheus text format. */
  queueText(): Promise<string>;
  events: Pick<EventFeed, "lastId" | "after" | "more">;
  /** Why the scheduler cannot do its work now; empty where it can. */
  readiness(): Promise<string[]>;
}
