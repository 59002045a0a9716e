import type { Outcome } from "../domain.ts";
import type { Run, Task, TaskEvent } from "../schemas/rows.ts";

/** A run that a claim has begun. */
export interface BegunRun extends Pick<Run, "taskId" | "agent" | "stage">, Pick<Task, "repo"> {
  runId: number;
  /** How long its job had been due, in ms of the wall clock. */
  dueForMs: number;
}

/** A run whose outcome was recorded. */
export interface EndedRun extends Pick<Run, "jobId" | "agent" | "stage"> {
  runId: number;
  outcome: Outcome;
  class: string | null;
  reason: string | null;
}

/** What a committed transaction changed, for those who wait for it: the dispatcher, event streams, metrics. */
export interface Committed {
  events: readonly TaskEvent[];
  begun: readonly BegunRun[];
  ended: readonly EndedRun[];
  /** True where a job became due or a slot became free. */
  queueMoved: boolean;
}
