import { JOB_STATUSES, type JobStatus, TASK_STATUSES, type TaskStatus } from "../domain.ts";

/** A task as the tally sees it. */
export interface TaskPlace {
  stage: string;
  status: TaskStatus;
}

/** One row's move from a place to another; null for what did not exist before. */
export type Move =
  | { of: "job"; from: JobStatus | null; to: JobStatus }
  | { of: "task"; from: TaskPlace | null; to: TaskPlace };

/**
 * How many jobs and tasks there are of each kind. The single writer keeps it from what it commits, so that `GET /queue`
 * costs the same however much history there is. It is counted from the tables at start, and where it cannot be known otherwise
 * what a commit has moved.
 */
export class Tally {
  readonly #jobs = new Map<JobStatus, number>();
  readonly #tasks = new Map<string, number>();

  apply(moves: readonly Move[]): void {
    for (const move of moves) {
      if (move.of === "job") {
        if (move.from !== null) this.#addJobs(move.from, -1);
        this.#addJobs(move.to, 1);
      } else {
        if (move.from !== null) this.#addTasks(move.from, -1);
        this.#addTasks(move.to, 1);
      }
    }
  }

  /** Sets what was counted in the tables. */
  restore(jobs: { status: JobStatus; n: number }[], tasks: (TaskPlace & { n: number })[]): void {
    this.#jobs.clear();
    this.#tasks.clear();
    for (const { status, n } of jobs) this.#addJobs(status, n);
    for (const { n, ...place } of tasks) this.#addTasks(place, n);
  }

  jobs(): Record<JobStatus, number> {
    return Object.fromEntries(JOB_STATUSES.map((status) => [status, this.#jobs.get(status) ?? 0])) as Record<
      JobStatus,
      number
    >;
  }

  /** Every (stage, status) that has a task. */
  tasks(): (TaskPlace & { n: number })[] {
    return [...this.#tasks].filter(([, n]) => n > 0).map(([key, n]) => ({ ...placeOf(key), n }));
  }

  tasksByStatus(): Record<TaskStatus, number> {
    const counts = Object.fromEntries(TASK_STATUSES.map((status) => [status, 0])) as Record<TaskStatus, number>;
    for (const { status, n } of this.tasks()) counts[status] += n;
    return counts;
  }

  #addJobs(status: JobStatus, n: number): void {
    this.#jobs.set(status, (this.#jobs.get(status) ?? 0) + n);
  }

  #addTasks(place: TaskPlace, n: number): void {
    const key = `${place.status} ${place.stage}`;
    this.#tasks.set(key, (this.#tasks.get(key) ?? 0) + n);
  }
}

const placeOf = (key: string): TaskPlace => {
  const space = key.indexOf(" ");
  return { status: key.slice(0, space) as TaskStatus, stage: key.slice(space + 1) };
};
