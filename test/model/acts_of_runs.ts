import { STAGING_AGENT, STAGING_STAGE } from "@orchestrator/shared/domain.ts";
import { readProcess } from "@orchestrator/shared/process/proc_table.ts";
import { StorageUnreachableError } from "@orchestrator/shared/storage/connection.ts";
import type { RunResult } from "../../services/scheduler/run_result.ts";
import { type Act, pick } from "./act.ts";
import { type Model, type ModelJob, placeOf } from "./model.ts";
import type { ModelMonitor } from "./model_process.ts";
import { predictSettle } from "./model_settle.ts";
import { isForced, resultOf } from "./results.ts";
import { DeadError } from "./scheduler_in_hand.ts";
import type { Step } from "./step.ts";
import { LIMITS } from "./surroundings.ts";
import type { World } from "./world.ts";

type Of<D extends Step["do"]> = Extract<Step, { do: D }>;

const OWN_PROCESS = { pid: process.pid, started: readProcess(process.pid)!.started };

/** The monitors that are in that state, by run. */
const choose = (model: Model, at: number, holds: (monitor: ModelMonitor) => boolean): ModelMonitor | undefined =>
  pick([...model.process.monitors.values()].filter(holds), at);

const handOf = ({ scheduler }: World, { runId }: ModelMonitor) => scheduler.monitors.get(runId)!;

const about = (model: Model, { runId, jobId }: ModelMonitor) => ({ taskId: model.job(jobId).taskId, jobId, runId });

const nameOf = (model: Model, { runId, jobId }: ModelMonitor): string => {
  const { stage, taskId } = model.job(jobId);
  return `run ${runId} of job ${jobId} (${model.task(taskId).workItemId}, ${stage})`;
};

export const claim = (model: Model): Act | null => {
  if (model.process.stopping) return null;
  return {
    predict: () => {
      const job = bestDue(model);
      if (!job) return null;
      const task = model.task(job.taskId);
      const { id: jobId, taskId, attempt, stage } = job;
      const runId = model.runs.length + 1;
      model.runs.push({
        ...{ id: runId, jobId, taskId, attempt, outcome: null, class: null, reason: null },
        ...{ mayHaveBegun: false, exitCode: null, signal: null },
      });
      model.process.faults.claimed(placeOf(model, job), runId);
      Object.assign(job, { status: "running", runId });
      task.leaseRunId = runId;
      model.process.claimed(runId, jobId);
      model.event("claimed", { taskId, jobId, runId, detail: { stage, attempt } });
      return runId;
    },
    perform: ({ scheduler }) => scheduler.claim(),
  };
};

/** The best queued job that is due, within the limits and past nothing that is paused. */
const bestDue = (model: Model): ModelJob | undefined => {
  const open = model.process.faults.open();
  const isPaused = (what: string) => model.paused.has(what) && !open.has(what);
  const running = model.running().map((job) => placeOf(model, job));
  if (running.length >= LIMITS.total || isPaused("all")) return undefined;
  const isBeingStaged = running.some(({ stage }) => stage === STAGING_STAGE);
  const mayRun = (job: ModelJob): boolean => {
    const { agent, repo, stage } = placeOf(model, job);
    const ofAgent = running.filter((place) => place.agent === agent).length;
    const ofRepo = running.filter((place) => place.repo === repo).length;
    return (
      job.availableAtMs <= model.clock.now() &&
      !isPaused(`agent:${agent}`) &&
      !isPaused(`repo:${repo}`) &&
      (agent !== "developer" || ofAgent < LIMITS.perAgent.developer) &&
      ofRepo < (repo === "mill" ? LIMITS.perRepo.mill : LIMITS.perRepo.default) &&
      // Both repositories are staged in the same environment.
      (stage !== STAGING_STAGE || (!isPaused("staging") && !isBeingStaged))
    );
  };
  const order = (a: ModelJob, b: ModelJob) =>
    b.priority - a.priority || a.availableAtMs - b.availableAtMs || a.id - b.id;
  return model.queued().filter(mayRun).sort(order)[0];
};

export const start = (model: Model, { at, adopts, dark }: Of<"start">): Act | null => {
  const monitor = choose(model, at, (one) => one.phase === "launching" && one.result === null && !one.endReason);
  if (!monitor) return null;
  const job = model.job(monitor.jobId);
  const isStaging = job.stage === STAGING_STAGE && job.agent === STAGING_AGENT;
  const run = model.run(monitor.runId);
  const { head } = model.task(run.taskId);
  const begin = head === null || adopts ? `begin-of-run-${run.id}` : null;
  return {
    on: nameOf(model, monitor),
    predict: () => {
      const task = model.task(run.taskId);
      if (begin !== null && task.leaseRunId === run.id) task.head = begin;
      if (!isStaging && run.outcome === null) run.mayHaveBegun = true;
      if (dark) return;
      monitor.worker = isStaging ? "stream" : "process";
      monitor.workerAlive = true;
      model.process.enter(monitor, "executing");
      monitor.lastOutputMs = monitor.phaseSinceMs;
      model.event("started", about(model, monitor));
    },
    perform: async (world) => {
      const hand = handOf(world, monitor);
      await hand.findPlace(begin);
      if (!isStaging) await hand.beginStart();
      if (!dark) await (isStaging ? hand.startStaging() : hand.startAgent(OWN_PROCESS));
    },
  };
};

export const output = (model: Model, { at }: Of<"output">): Act | null => {
  const monitor = choose(model, at, (one) => one.phase === "executing");
  if (!monitor) return null;
  return {
    on: nameOf(model, monitor),
    predict: () => {
      monitor.lastOutputMs = model.clock.monotonicMs();
    },
    perform: async (world) => handOf(world, monitor).output(),
  };
};

const EXITS = {
  ok: { code: 0, signal: null },
  code: { code: 1, signal: null },
  signal: { code: null, signal: "SIGKILL" },
} as const;

export const exit = (model: Model, { at, as }: Of<"exit">): Act | null => {
  const isOver = (one: ModelMonitor) =>
    one.phase === "executing" && !(one.worker === "stream" && one.endReason !== null);
  const monitor = choose(model, at, isOver);
  if (!monitor) return null;
  // An exit that was asked for is recorded with the signal that asked.
  const { code, signal } = EXITS[as];
  const seen =
    monitor.worker === "stream" ? null : { code, signal: monitor.endReason ? (signal ?? "SIGTERM") : signal };
  return {
    on: nameOf(model, monitor),
    predict: () => {
      monitor.exit = as;
      model.process.beginFinalizing(monitor);
      if (seen === null) return;
      const run = model.run(monitor.runId);
      if (run.outcome === null) Object.assign(run, { exitCode: seen.code, signal: seen.signal });
      model.event("exited", { ...about(model, monitor), detail: { exit_code: seen.code, signal: seen.signal } });
    },
    perform: async (world) => handOf(world, monitor).exit(seen),
  };
};

export const vanish = (model: Model, { at }: Of<"vanish">): Act | null => {
  const monitor = choose(model, at, (one) => one.phase === "executing" && one.worker === "process");
  if (!monitor) return null;
  return {
    on: nameOf(model, monitor),
    predict: () => {
      monitor.workerAlive = false;
    },
    perform: async (world) => handOf(world, monitor).vanish(),
  };
};

export const finalize = (model: Model, { at, result: name }: Of<"finalize">): Act | null => {
  const monitor = choose(model, at, (one) => resultOf(model, one, name) !== null);
  if (!monitor) return null;
  const isBrokenOff = monitor.phase !== "finalizing" && isForced(monitor);
  const result = resultOf(model, monitor, name)!;
  return {
    on: `${nameOf(model, monitor)}: ${result.kind}`,
    predict: () => {
      monitor.result = result;
      model.process.beginFinalizing(monitor);
      // The settle is about to be written, and no write counts as the finalizer's own time.
      holdMark(model, monitor, true);
    },
    perform: async (world) => {
      const hand = handOf(world, monitor);
      // The reaper's words are its own.
      const real = isForced(monitor) ? ({ ...result, ...hand.run.endReason! } as RunResult) : result;
      await (isBrokenOff ? hand.breakOff(real) : hand.finish(real));
    },
  };
};

export const hold = (model: Model, { at, on }: Of<"hold">): Act | null => {
  const monitor = choose(model, at, (one) => one.phase === "finalizing" && one.result === null);
  if (!monitor) return null;
  return {
    on: nameOf(model, monitor),
    predict: () => holdMark(model, monitor, on),
    perform: async (world) => handOf(world, monitor).hold(on),
  };
};

const holdMark = (model: Model, { jobId, runId }: ModelMonitor, on: boolean): void => {
  const mark = model.process.marks.get(jobId);
  if (mark?.runId !== runId) return;
  const nowMs = model.clock.monotonicMs();
  if (on) mark.heldSinceMs ??= nowMs;
  else if (mark.heldSinceMs !== null) {
    mark.heldMs += nowMs - mark.heldSinceMs;
    mark.heldSinceMs = null;
  }
};

export const settle = (model: Model, { at, how }: Of<"settle">): Act | null => {
  const isReady = (one: ModelMonitor) =>
    one.result !== null &&
    (how === "written" || model.process.owner(one.jobId, one.runId) === one) &&
    (how === "written" || model.run(one.runId).outcome === null);
  const monitor = choose(model, at, isReady);
  if (!monitor) return null;
  const { runId, result } = monitor;
  const by = monitor.endReason?.outcome === "interrupted" ? "shutdown" : null;
  const on = `${nameOf(model, monitor)}: ${result!.kind}`;
  if (how === "written") {
    return {
      on,
      predict: () => {
        const settlement = predictSettle(model, runId, result!, by);
        const { process } = model;
        if (settlement.kind === "superseded") process.counts.settleSuperseded += 1;
        if (settlement.kind === "settled" && settlement.next === "defer") process.deferred += 1;
        process.gone(monitor);
      },
      perform: async (world) => handOf(world, monitor).settle(),
    };
  }
  return {
    on,
    predict: () => {
      if (how === "answer_lost") predictSettle(model, runId, result!, by);
      return "no answer";
    },
    perform: async ({ scheduler }) => {
      try {
        if (how === "answer_lost") return await scheduler.settleUnanswered(runId);
        return await scheduler.settleTry(runId, { point: "settle.before_commit", after: 0 });
      } catch (error) {
        if (error instanceof DeadError || error instanceof StorageUnreachableError) return "no answer";
        throw error;
      }
    },
  };
};

export const die = (model: Model, { at }: Of<"die">): Act | null => {
  const monitor = choose(model, at, (one) => one.result !== null || one.phase === "finalizing" || !isForced(one));
  if (!monitor) return null;
  return {
    on: nameOf(model, monitor),
    predict: () => {
      // It dies in its settle, which is written under a mark.
      model.process.beginFinalizing(monitor);
      model.process.gone(monitor);
    },
    perform: async (world) => handOf(world, monitor).die(),
  };
};
