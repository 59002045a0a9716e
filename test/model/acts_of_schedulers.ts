import { FencedOffError } from "@orchestrator/shared/storage/check_epoch.ts";
import { recordExited } from "@orchestrator/shared/storage/record_run_progress.ts";
import { holdOf } from "../../services/scheduler/run_context.ts";
import { type Act, pick } from "./act.ts";
import { type Model, mayRunAgain } from "./model.ts";
import { ModelProcess } from "./model_process.ts";
import { predictSettle } from "./model_settle.ts";
import { predictSweep } from "./model_sweep.ts";
import { readWhole } from "./read_database.ts";
import { DeadError, type SchedulerInHand } from "./scheduler_in_hand.ts";
import type { Step, ZombieDeed } from "./step.ts";

type Of<D extends Step["do"]> = Extract<Step, { do: D }>;

export const sweep = (model: Model): Act => ({
  predict: () => predictSweep(model),
  perform: ({ scheduler }) => scheduler.reaper.sweep(),
});

export const pass = ({ seconds }: Of<"pass">): Act => ({
  predict: () => undefined,
  perform: async ({ clock }) => clock.advance(seconds * 1000),
});

export const passUntilDue = (model: Model): Act | null => {
  const nowMs = model.clock.now();
  const due = model.queued().map((job) => job.availableAtMs);
  if (due.length === 0) return null;
  const waitMs = Math.max(0, Math.min(...due) - nowMs);
  return { predict: () => undefined, perform: async ({ clock }) => clock.advance(waitMs) };
};

export const setClock = ({ minutes }: Of<"set_clock">): Act => ({
  predict: () => undefined,
  perform: async ({ clock }) => clock.setWall(clock.now() + minutes * 60_000),
});

export const shutDown = (model: Model): Act => ({
  predict: () => {
    const { process } = model;
    process.stopping = true;
    for (const [jobId, runId] of process.active) process.end(process.owner(jobId, runId)!, INTERRUPTED);
  },
  perform: async ({ scheduler }) => {
    for (const run of scheduler.context.activeRuns.all()) run.end(INTERRUPTED);
  },
});

const INTERRUPTED = { outcome: "interrupted", class: "shutdown", reason: "the scheduler was stopped" } as const;

/** What a start does with the jobs that it finds running; @param most how many of them before it dies. */
const predictRequeue = (model: Model, most = Number.POSITIVE_INFINITY): void => {
  for (const job of model.running().slice(0, most)) {
    const run = model.run(job.runId!);
    const ending = { outcome: "interrupted", class: "restart", reason: "the scheduler ended" } as const;
    const runsAgentAgain = mayRunAgain(run);
    predictSettle(model, run.id, { kind: "ended", ...ending, runsAgentAgain }, "restart");
  }
};

/** Nothing is remembered but what stands in the database. */
const predictStart = (model: Model): void => {
  model.epoch += 1;
  model.process = new ModelProcess(model.clock);
};

const restorePauses = (model: Model): void => {
  for (const [what, { reason }] of model.paused)
    if (reason.startsWith("systemic fault: ")) model.process.faults.await(what, 0);
};

export const restart = (model: Model, { crashAt }: Of<"restart">): Act => {
  const reached = model.running().length;
  const crash = crashAt !== null && crashAt.job < reached ? crashAt : null;
  return {
    on: `${reached} running`,
    predict: () => {
      predictStart(model);
      if (crash) {
        predictRequeue(model, crash.job + (crash.when === "after" ? 1 : 0));
        predictStart(model);
      }
      predictRequeue(model);
      restorePauses(model);
    },
    perform: async (world) => {
      if (crash) {
        const died = world.restart({ point: `settle.${crash.when}`, after: crash.job }).then(
          () => false,
          (error: unknown) => error instanceof DeadError,
        );
        if (!(await died)) throw new Error("the start was to die, and has not");
      }
      await world.restart(null);
    },
  };
};

export const takeOver = (model: Model): Act => ({
  predict: () => {
    predictStart(model);
    model.zombies += 1;
    predictRequeue(model);
    restorePauses(model);
  },
  perform: async (world) => {
    const old = world.scheduler;
    world.zombies.push(old);
    world.scheduler = await world.open();
    // The moment between the epoch and the requeueing: the old one's jobs are still `running`.
    for (const deed of ["settle", "claim", "requeue"] as const) await tryInVain(old, deed);
    await world.scheduler.begin();
  },
});

export const zombie = (model: Model, { at, deed }: Of<"zombie">): Act | null =>
  model.zombies === 0
    ? null
    : {
        predict: () => undefined,
        perform: async (world) => tryInVain(pick(world.zombies, at)!, deed),
      };

/** A fenced-off writer is told so, its process once, and changes nothing. */
const tryInVain = async (old: SchedulerInHand, deed: ZombieDeed): Promise<void> => {
  const before = await readWhole(old.storage);
  const answer = await DEEDS[deed](old).then(
    (value) => ({ kind: "answered", value }),
    (error: unknown) => (error instanceof FencedOffError ? { kind: "fenced off" } : { kind: "failed", error }),
  );
  const after = await readWhole(old.storage);
  if (before !== after) throw new Error(`a fenced-off scheduler has changed the database by ${deed}`);
  const wasTold = answer.kind === "fenced off";
  if (wasTold && old.fencedOff.length !== 1)
    throw new Error(`a fenced-off scheduler's process was told so ${old.fencedOff.length} times instead of once`);
  // A sweep or a requeueing that finds nothing to write need not ask; nor is there always a run to speak of.
  const isIdle = answer.kind === "answered" && IDLE.includes(deed);
  if (!wasTold && !isIdle)
    throw new Error(`a fenced-off scheduler was not told so at ${deed}: ${JSON.stringify(answer)}`, {
      cause: "error" in answer ? answer.error : undefined,
    });
};

const IDLE: readonly ZombieDeed[] = ["sweep", "requeue", "record", "settle"];

const DEEDS: Record<ZombieDeed, (old: SchedulerInHand) => Promise<unknown>> = {
  claim: (old) => old.claim(),
  create: ({ api }) =>
    api.createTask({ workItemId: "ORCH-999", title: "Too late", description: "", repo: "shop", priority: 0 }),
  cancel: ({ api }) => api.cancelTask({ id: 1 }, {}),
  retry: ({ api }) => api.retryTask({ id: 1 }, {}),
  approve: ({ api }) => api.approveTask({ id: 1 }, { stage: "analysis" }),
  return: ({ api }) => api.returnTask({ id: 1 }, { to: "analysis", reason: "Too late" }),
  pause: ({ api }) => api.pauseQueue({ reason: "Too late" }),
  resume: ({ api }) => api.resumeQueue({}),
  record: async (old) => {
    const monitor = [...old.monitors.values()].at(-1);
    if (monitor) await old.storage.write((tx) => recordExited(tx, holdOf(monitor.run), { code: 0, signal: null }));
  },
  settle: async (old) => {
    const monitors = [...old.monitors.values()];
    const ready = monitors.find(({ result, isOver }) => result !== null && !isOver);
    if (ready) return ready.settle();
    const last = monitors.at(-1);
    return last && old.settle(last.run.claim.run.id, { kind: "passed", head: "too-late" });
  },
  requeue: (old) => old.requeueRunning(),
  push: (old) => old.checkFence(),
  sweep: (old) => old.reaper.sweep(),
};
