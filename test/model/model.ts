import type { EventKind, JobStatus, Outcome, TaskStatus } from "@orchestrator/shared/domain.ts";
import { findStage, type Stage } from "@orchestrator/shared/pipeline.ts";
import type { FakeClock } from "../helpers/fake_clock.ts";
import type { Place } from "./model_faults.ts";
import { ModelProcess } from "./model_process.ts";
import { PIPELINE, type RepoName } from "./surroundings.ts";

export interface ModelTask {
  id: number;
  workItemId: string;
  repo: RepoName;
  branch: string;
  priority: number;
  stage: string;
  status: TaskStatus;
  returns: number;
  head: string | null;
  leaseRunId: number | null;
  /** Words that stand in the reason for people; null: there is none. */
  blocked: string | null;
}

export interface ModelJob {
  id: number;
  taskId: number;
  stage: string;
  agent: string;
  status: JobStatus;
  priority: number;
  attempt: number;
  maxAttempts: number;
  availableAtMs: number;
  runId: number | null;
  markers: number;
  firstMarkerMs: number | null;
  /** Words that stand in `task_content`: why the task is here again. */
  why: string | null;
}

export interface ModelRun {
  id: number;
  jobId: number;
  taskId: number;
  attempt: number;
  outcome: Outcome | null;
  class: string | null;
  reason: string | null;
  /** An agent of it may have been started. */
  mayHaveBegun: boolean;
  exitCode: number | null;
  signal: string | null;
}

export interface ModelEvent {
  kind: EventKind;
  taskId: number | null;
  jobId: number | null;
  runId: number | null;
  /** What must stand in the event's detail, among other things. */
  detail: Record<string, unknown>;
}

/** What the database must hold, and what the scheduler's process must remember. */
export class Model {
  readonly clock: FakeClock;
  readonly tasks: ModelTask[] = [];
  readonly jobs: ModelJob[] = [];
  readonly runs: ModelRun[] = [];
  readonly events: ModelEvent[] = [];
  readonly paused = new Map<string, { reason: string; sinceMs: number }>();
  epoch = 1;
  /** A row that is refused uses up an id as well. */
  nextTaskId = 1;
  process: ModelProcess;
  /** How many schedulers were taken over and go on all the same. */
  zombies = 0;

  constructor(clock: FakeClock) {
    this.clock = clock;
    this.process = new ModelProcess(clock);
  }

  task(id: number): ModelTask {
    return this.tasks.find((task) => task.id === id)!;
  }

  job(id: number): ModelJob {
    return this.jobs[id - 1]!;
  }

  run(id: number): ModelRun {
    return this.runs[id - 1]!;
  }

  runsOf(jobId: number): ModelRun[] {
    return this.runs.filter((run) => run.jobId === jobId);
  }

  /** What is paused, longest first. */
  pauses(): string[] {
    const entries = [...this.paused].sort(([a, one], [b, other]) => one.sinceMs - other.sinceMs || (a < b ? -1 : 1));
    return entries.map(([what]) => what);
  }

  pause(what: string, reason: string, detail: Record<string, unknown>): void {
    this.paused.set(what, { reason, sinceMs: this.paused.get(what)?.sinceMs ?? this.clock.now() });
    this.event("paused", { detail: { ...detail, what } });
  }

  running(): ModelJob[] {
    return this.jobs.filter((job) => job.status === "running");
  }

  queued(): ModelJob[] {
    return this.jobs.filter((job) => job.status === "queued");
  }

  activeJob(taskId: number): ModelJob | undefined {
    return this.jobs.find((job) => job.taskId === taskId && (job.status === "queued" || job.status === "running"));
  }

  event(kind: EventKind, about: Partial<Omit<ModelEvent, "kind">> = {}): void {
    this.events.push({ taskId: null, jobId: null, runId: null, detail: {}, ...about, kind });
  }

  /** A run that this process has claimed has got its outcome: a fault of the surroundings must not walk through the queue. */
  sawEnd(run: ModelRun): void {
    const { claims, faults } = this.process;
    if (!claims.delete(run.id)) return;
    const ending = { outcome: run.outcome!, class: run.class };
    for (const { what, fault } of faults.ended(
      placeOf(this, this.job(run.jobId)),
      { taskId: run.taskId, runId: run.id },
      ending,
    )) {
      if (fault === null) {
        if (this.paused.delete(what)) this.event("resumed", { detail: { what, by: "probe" } });
      } else if (!this.paused.has(what)) {
        this.pause(what, `systemic fault: ${fault}`, { class: fault, by: "scheduler" });
        faults.await(what, 0);
      }
    }
  }

  /** A fresh job of the stage in which the task stands, due at once. */
  enqueue(task: ModelTask, why: string | null): ModelJob {
    const { agent, maxAttempts } = stageOf(task.stage);
    return this.addJob({ taskId: task.id, stage: task.stage, agent, maxAttempts, priority: task.priority, why });
  }

  addJob(
    job: Pick<ModelJob, "taskId" | "stage" | "agent" | "maxAttempts" | "priority" | "why"> & Partial<ModelJob>,
  ): ModelJob {
    const added: ModelJob = {
      ...{
        status: "queued",
        attempt: 1,
        availableAtMs: this.clock.now(),
        runId: null,
        markers: 0,
        firstMarkerMs: null,
      },
      ...job,
      id: this.jobs.length + 1,
    };
    this.jobs.push(added);
    return added;
  }
}

export const stageOf = (name: string): Stage => findStage(PIPELINE, name)!;

export const placeOf = (model: Model, { taskId, agent, stage }: ModelJob): Place => ({
  ...{ agent, stage },
  repo: model.task(taskId).repo,
});

/** Its agent may have been started, and has not exited 0 of itself: the next run of the job would start one again. */
export const mayRunAgain = ({ mayHaveBegun, exitCode, signal }: ModelRun): boolean =>
  mayHaveBegun && !(exitCode === 0 && signal === null);
