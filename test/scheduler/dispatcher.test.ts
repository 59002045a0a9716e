import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { MIN_FREE_BYTES } from "@orchestrator/shared/disk_space.ts";
import { DEFAULT_PIPELINE } from "@orchestrator/shared/pipeline.ts";
import type { Job } from "@orchestrator/shared/schemas/rows.ts";
import { finishRun } from "@orchestrator/shared/storage/finish_run.ts";
import { insertPause } from "@orchestrator/shared/storage/insert_pause.ts";
import { readPauses } from "@orchestrator/shared/storage/read_pauses.ts";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { type ActiveRun, ActiveRuns } from "../../services/scheduler/active_runs.ts";
import { cancelTask } from "../../services/scheduler/cancel_task.ts";
import { createReaperCounters, createStagingCounters } from "../../services/scheduler/counters.ts";
import { Dispatcher } from "../../services/scheduler/dispatcher.ts";
import { FinalizerLiveness } from "../../services/scheduler/finalizer_liveness.ts";
import { monitorRun, type Work } from "../../services/scheduler/monitor.ts";
import type { RunContext } from "../../services/scheduler/run_context.ts";
import { SystemicFaults } from "../../services/scheduler/systemic_faults.ts";
import { deferred } from "../helpers/deferred.ts";
import { failNextCommit, unreachable } from "../helpers/failing_commits.ts";
import { FakeClock } from "../helpers/fake_clock.ts";
import { HeldPoints } from "../helpers/held_points.ts";
import { insertTaskWithJob } from "../helpers/insert.ts";
import { mountSmallDisk } from "../helpers/small_disk.ts";
import { openTestStorage } from "../helpers/storage.ts";
import { tempFolder } from "../helpers/temp_folder.ts";
import { keepLog } from "./faults/kept_log.ts";

const PROBE_MS = 60_000;

/**
 * A dispatcher over a real database, and no work behind it: what it claims goes on until the test ends it. Time passes, and
 * timers fire, when the test says so.
 * @param work what a monitor does with a run; default: there is no monitor.
 */
const setup = async ({
  total = 4,
  work,
  workspacesDir,
}: {
  total?: number;
  work?: Work;
  workspacesDir?: string;
} = {}) => {
  const clock = new FakeClock();
  const { storage } = await openTestStorage({ clock });
  const folder = await tempFolder();
  const { log, said } = keepLog();
  const points = new HeldPoints();
  const faults = new SystemicFaults({ storage, clock, log });
  const activeRuns = new ActiveRuns();
  const config = {
    ...{ repos: {}, agents: {}, limits: { total, perRepo: {}, perAgent: {} }, pipeline: DEFAULT_PIPELINE },
    ...{ dataDir: folder, workspacesDir: workspacesDir ?? folder, reposDir: folder, logMaxBytes: 0 },
  };
  const context = {
    ...{ config, storage, tenure: { confirm: async () => undefined }, clock, log, points, faults, activeRuns },
    liveness: new FinalizerLiveness(clock),
    runLogs: { open: async () => undefined, close: async () => undefined },
    reaperCounters: createReaperCounters(),
    stagingCounters: createStagingCounters(),
    random: () => 0,
  } as unknown as RunContext;
  const begun: ActiveRun[] = [];
  const dispatcher = new Dispatcher(context, async (run) => {
    begun.push(run);
    if (work) await monitorRun(context, run, work);
  });
  onTestFinished(() => dispatcher.stop());
  let isAwake = false;
  const wake = dispatcher.wake.bind(dispatcher);
  vi.spyOn(dispatcher, "wake").mockImplementation(() => {
    isAwake = true;
    wake();
  });
  // The last that is asked before it goes to sleep; where it was woken meanwhile, it wakes itself at once.
  const nextProbeInMs = faults.nextProbeInMs.bind(faults);
  vi.spyOn(faults, "nextProbeInMs").mockImplementation((...args) => {
    isAwake = false;
    return nextProbeInMs(...args);
  });
  let n = 0;
  return {
    ...{ clock, storage, points, faults, activeRuns, dispatcher, begun, said },
    /** How often it has looked for a job to claim. */
    looks: () => points.reached.filter((name) => name === "claim.before").length,
    /** Resolves when it has looked for all that has woken it, and sleeps. */
    asleep: async () => {
      do await setImmediate();
      while (isAwake);
    },
    pass: (ms: number) => {
      clock.advance(ms);
      vi.advanceTimersByTime(ms);
    },
    /** A task with a job of the agent that is paused. */
    insert: async (job: Partial<Pick<Job, "agent" | "availableAt">> = {}) => {
      n += 1;
      return insertTaskWithJob(storage, { workItemId: `ORCH-${n}` }, job);
    },
  };
};

/** With the analyst paused by a systemic fault, and the first probe due in a minute. */
const setupPaused = async (options: Parameters<typeof setup>[0] = {}) => {
  const site = await setup(options);
  const reason = "systemic fault: command_not_found on jobs of 3 tasks in a row";
  await site.storage.write((tx) => insertPause(tx, "agent:analyst", reason));
  site.faults.restore(await readPauses(site.storage));
  return site;
};

const useFakeTimers = () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
};

describe("a probe that is due", () => {
  test("is not looked for again while nothing is queued, and is the next job that comes", async () => {
    useFakeTimers();
    const { clock, dispatcher, faults, begun, looks, asleep, pass, insert } = await setupPaused();
    clock.advance(PROBE_MS);
    dispatcher.start();
    await asleep();
    expect(vi.getTimerCount()).toBe(0);
    pass(PROBE_MS);
    await asleep();
    expect(looks()).toBe(1);

    await insert();
    await asleep();
    expect(begun.map((run) => run.claim.job.agent)).toEqual(["analyst"]);
    expect([...faults.probes()]).toEqual([]);
    await insert();
    await asleep();
    expect(begun).toHaveLength(1);
    expect(vi.getTimerCount()).toBe(0);
  });

  test("goes with a job that waits for its time when that has come, and is not looked for before", async () => {
    useFakeTimers();
    const { clock, dispatcher, begun, looks, asleep, pass, insert } = await setupPaused();
    clock.advance(PROBE_MS);
    await insert({ availableAt: new Date(clock.now() + 30_000).toISOString() });
    dispatcher.start();
    await asleep();
    pass(29_999);
    await asleep();
    expect(looks()).toBe(1);
    pass(1);
    await asleep();
    expect(begun).toHaveLength(1);
  });

  test("is not looked for while the limits are full, and goes once there is a slot", async () => {
    useFakeTimers();
    const { clock, storage, activeRuns, dispatcher, begun, asleep, insert } = await setupPaused({ total: 1 });
    await insert({ agent: "developer" });
    dispatcher.start();
    await asleep();
    await insert();
    await asleep();
    clock.advance(PROBE_MS);
    dispatcher.wake();
    await asleep();
    expect(vi.getTimerCount()).toBe(0);
    expect(begun).toHaveLength(1);
    await cancelTask({ storage, activeRuns }, { workItemId: "ORCH-1" }, {});
    await asleep();
    expect(begun.map((run) => run.claim.task.workItemId)).toEqual(["ORCH-1", "ORCH-2"]);
  });
});

describe("a probe that is not due yet", () => {
  test("goes when its time has come, with a job that has been due for long", async () => {
    useFakeTimers();
    const { dispatcher, begun, asleep, pass, insert } = await setupPaused();
    await insert();
    dispatcher.start();
    await asleep();
    pass(PROBE_MS - 1);
    await asleep();
    expect(begun).toHaveLength(0);
    pass(1);
    await asleep();
    expect(begun).toHaveLength(1);
  });

  test("goes at once where its time comes just after it was looked at", async () => {
    useFakeTimers();
    const { clock, dispatcher, faults, begun, asleep, pass, insert } = await setupPaused();
    await insert();
    const probes = faults.probes.bind(faults);
    vi.spyOn(faults, "probes").mockImplementationOnce(() => {
      const due = probes();
      clock.advance(PROBE_MS);
      return due;
    });
    dispatcher.start();
    await asleep();
    expect(begun).toHaveLength(0);
    pass(1);
    await asleep();
    expect(begun).toHaveLength(1);
  });

  test("goes in its time where it was awaited after the last look, and nothing moves in the queue", async () => {
    useFakeTimers();
    const { clock, storage, dispatcher, faults, begun, asleep, pass, insert } = await setupPaused();
    await insert();
    await insert();
    clock.advance(PROBE_MS);
    dispatcher.start();
    await asleep();
    expect(begun).toHaveLength(1);
    expect(vi.getTimerCount()).toBe(0);
    const ending = { outcome: "cancelled", class: null, reason: "a person cancelled the task" } as const;
    await storage.write((tx) => finishRun(tx, begun[0]!.claim.run.id, ending));
    await faults.idle();
    await asleep();
    pass(PROBE_MS);
    await asleep();
    expect(begun.map((run) => run.claim.task.workItemId)).toEqual(["ORCH-1", "ORCH-2"]);
  });
});

describe("a probe that has found nothing good is followed by another one", () => {
  test("where it was cancelled in the commit of its claim", async () => {
    const { clock, storage, points, faults, activeRuns, dispatcher, begun, insert } = await setupPaused();
    const commits: { begun: number; ended: number; handedOn: number }[] = [];
    storage.onCommitted((committed) => {
      const counts = { begun: committed.begun.length, ended: committed.ended.length };
      if (counts.begun + counts.ended > 0) commits.push({ ...counts, handedOn: begun.length });
    });
    clock.advance(PROBE_MS);
    await insert();
    const beforeClaim = points.hold("claim.before");
    dispatcher.start();
    await beforeClaim.arrived;
    // Another write is under way, for which the claim and, after it, the cancel have to wait.
    const [writing, goOn] = [deferred(), deferred()];
    const written = storage.write(async () => {
      writing.resolve();
      await goOn.promise;
    });
    await writing.promise;
    beforeClaim.release();
    for (let n = 0; n < 20; n++) await setImmediate();
    const cancelling = cancelTask({ storage, activeRuns }, { workItemId: "ORCH-1" }, {});
    goOn.resolve();
    await written;
    expect((await cancelling).kind).toBe("ok");
    await faults.idle();
    // Both were told before the dispatcher had its claim.
    expect(commits).toEqual([
      { begun: 1, ended: 0, handedOn: 0 },
      { begun: 0, ended: 1, handedOn: 0 },
    ]);
    await expect.poll(() => begun.length).toBe(1);
    expect(faults.nextProbeInMs()).toBe(PROBE_MS);
    expect(await readPauses(storage)).toMatchObject([{ what: "agent:analyst" }]);
    clock.advance(PROBE_MS);
    await insert();
    await expect.poll(() => begun.length).toBe(2);
  });

  test("where the commit of its settle was never answered", async () => {
    const work: Work = async () => ({
      ...{
        kind: "ended",
        outcome: "tool_error",
        class: "command_not_found",
        reason: "no agent",
        runsAgentAgain: false,
      },
    });
    const { clock, storage, points, faults, activeRuns, dispatcher, begun, insert } = await setupPaused({ work });
    clock.advance(PROBE_MS);
    await insert();
    const beforeSettle = points.hold("settle.before");
    dispatcher.start();
    await beforeSettle.arrived;
    failNextCommit(unreachable(), { made: true });
    beforeSettle.release();
    await expect.poll(() => begun.length).toBe(1);
    await activeRuns.whenIdle();
    await faults.idle();
    expect(await storage.query("SELECT outcome FROM agent_runs")).toEqual([{ outcome: "tool_error" }]);
    expect(faults.nextProbeInMs()).toBe(2 * PROBE_MS);
    clock.advance(2 * PROBE_MS);
    dispatcher.wake();
    await expect.poll(() => begun.length).toBe(2);
    await activeRuns.whenIdle();
  });
});

test("a full disk is looked at every five seconds, and said once; so is that there is room again", async () => {
  useFakeTimers();
  const workspacesDir = join(await tempFolder(), "workspaces");
  const disk = await mountSmallDisk(workspacesDir);
  const { dispatcher, begun, said, asleep, pass, insert } = await setup({ workspacesDir });
  const sleepsWithTimer = async () => {
    while (vi.getTimerCount() === 0) await setImmediate();
  };
  await disk.leave(MIN_FREE_BYTES - 4096);
  await insert();
  dispatcher.start();
  for (let n = 0; n < 10; n++) {
    await sleepsWithTimer();
    pass(5_000);
  }
  await sleepsWithTimer();
  expect(said("not claiming")).toMatchObject([{ level: "warn", folder: workspacesDir }]);
  expect(begun).toHaveLength(0);
  await disk.free();
  pass(5_000);
  await asleep();
  expect(begun).toHaveLength(1);
  expect(said("claiming again")).toMatchObject([{ level: "info", for_ms: 55_000 }]);
  expect(said("not claiming")).toHaveLength(1);
});
