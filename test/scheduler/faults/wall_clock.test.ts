import type { Clock } from "@orchestrator/shared/clock.ts";
import { describe, expect, test } from "vitest";
import { WallClockWatch } from "../../../services/scheduler/wall_clock_watch.ts";
import { FakeClock } from "../../helpers/fake_clock.ts";
import { HeldPoints } from "../../helpers/held_points.ts";
import { onlyStages } from "../../helpers/on_the_way.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../../helpers/scheduler.ts";
import { keepLog } from "./kept_log.ts";

const HOUR_MS = 3_600_000;
const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";

/** The system's clocks, of which the wall clock can be set. */
class SetClock implements Clock {
  #offsetMs = 0;

  now(): number {
    return Date.now() + this.#offsetMs;
  }

  monotonicMs(): number {
    return performance.now();
  }

  set(byMs: number): void {
    this.#offsetMs += byMs;
  }
}

const HOOK = `[ "$ORCH_WORK_ITEM_ID" = ORCH-1 ] && [ ! -e "$AGENT_HOOKS/tried" ] || exit 0
touch "$AGENT_HOOKS/tried"; exit 1
`;

/** An item whose second attempt waits for its time. */
const waitForRetry = async ({ aheadMs = 0 } = {}) => {
  const site = await makeSite();
  await site.hook("analysis", HOOK);
  const clock = new SetClock();
  clock.set(aheadMs);
  const { log, said } = keepLog();
  const scheduler = await startTestScheduler(site, { clock, log, config: onlyStages(site, "analysis") });
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await taskWhen(scheduler, "ORCH-1", ({ events }) => events.at(-1)?.kind === "retried");
  const delayMs = async () => {
    const [job] = await scheduler.context.storage.query<{ at: string }>(
      "SELECT available_at AS at FROM jobs WHERE status = 'queued'",
    );
    return job === undefined ? null : Date.parse(job.at) - clock.now();
  };
  return { site, scheduler, clock, said, delayMs };
};

describe("a retry that waits when the wall clock is set", () => {
  test("an hour back comes when it would have come, and new work is not kept waiting", async () => {
    const { scheduler, clock, said, delayMs } = await waitForRetry();
    clock.set(-HOUR_MS);
    await postTask(scheduler, { workItemId: "ORCH-2" });
    expect((await taskWhen(scheduler, "ORCH-2", isOver)).task.status).toBe("done");
    expect(await delayMs()).toBeGreaterThan(0);
    expect(await delayMs()).toBeLessThanOrEqual(10_000);
    expect(said("the wall clock was set back")).toMatchObject([{ level: "warn", jobs: 1 }]);
    expect(Math.abs(Number(said("the wall clock was set back")[0]!.back_ms) - HOUR_MS)).toBeLessThan(1000);

    clock.set(11_000);
    await postTask(scheduler, { workItemId: "ORCH-3" });
    const { task, runs } = await taskWhen(scheduler, "ORCH-1", isOver);
    expect(task.status).toBe("done");
    expect(runs.map((run) => run.outcome)).toEqual(["failed", "succeeded"]);
  });

  test("an hour forward comes at the next look, once", async () => {
    const { scheduler, clock, said } = await waitForRetry();
    clock.set(HOUR_MS);
    await postTask(scheduler, { workItemId: "ORCH-2" });
    const { task, runs } = await taskWhen(scheduler, "ORCH-1", isOver);
    expect(task.status).toBe("done");
    expect(runs).toHaveLength(2);
    expect(said("the wall clock was set back")).toEqual([]);
  });

  test("forward by mistake and back again: what was queued meanwhile is not due an hour late", async () => {
    const site = await makeSite();
    await site.hook("analysis", HOOK);
    const clock = new SetClock();
    const scheduler = await startTestScheduler(site, { clock, config: onlyStages(site, "analysis") });
    clock.set(HOUR_MS);
    await postTask(scheduler, { workItemId: "ORCH-1" });
    await taskWhen(scheduler, "ORCH-1", ({ events }) => events.at(-1)?.kind === "retried");
    clock.set(-HOUR_MS);
    await postTask(scheduler, { workItemId: "ORCH-2" });
    await taskWhen(scheduler, "ORCH-2", isOver);
    clock.set(11_000);
    await postTask(scheduler, { workItemId: "ORCH-3" });
    expect((await taskWhen(scheduler, "ORCH-1", isOver)).task.status).toBe("done");
  });
});

test("a retry that was queued by a clock a year ahead is not waited for, where that was set right while no scheduler lived", async () => {
  const { site, scheduler: first, clock } = await waitForRetry({ aheadMs: 365 * 24 * HOUR_MS });
  await first.stop();
  const { log, said } = keepLog();
  const second = await startTestScheduler(site, { log, config: onlyStages(site, "analysis") });
  const [job] = await second.context.storage.query<{ at: string }>("SELECT available_at AS at FROM jobs");
  expect(Date.parse(job!.at) - Date.now()).toBeLessThanOrEqual(10 * 60_000);
  expect(said("the wall clock was ahead")).toMatchObject([{ level: "warn", jobs: 1 }]);
  await second.stop();

  clock.set(-364 * 24 * HOUR_MS);
  const third = await startTestScheduler(site, { clock, config: onlyStages(site, "analysis") });
  expect((await taskWhen(third, "ORCH-1", isOver)).task.status).toBe("done");
});

describe("ages do not move with the wall clock", () => {
  test.each([
    ["an hour forward", HOUR_MS],
    ["an hour back", -HOUR_MS],
  ])("%s: neither an agent at work nor a finalizer is taken for late", async (_, byMs) => {
    const halfHour = HOUR_MS / 2;
    const site = await makeSite({ finalizerMaxMs: halfHour, jobTimeoutMs: halfHour, stallTimeoutMs: halfHour });
    const clock = new SetClock();
    const points = new HeldPoints();
    const agents = { default: { ...site.config.agents.default!, timeoutMs: halfHour, stallTimeoutMs: halfHour } };
    const config = { agents, ...onlyStages(site, "analysis") };
    const scheduler = await startTestScheduler(site, { clock, points, config });
    const atWork = points.hold("spawn.recorded");
    const finalizing = points.hold("gate.read");
    await postTask(scheduler, { workItemId: "ORCH-1" });
    await atWork.arrived;
    clock.set(byMs);
    await scheduler.reaper.sweep();
    atWork.release();
    await finalizing.arrived;
    clock.set(byMs);
    await scheduler.reaper.sweep();
    finalizing.release();
    const { task, runs } = await taskWhen(scheduler, "ORCH-1", isOver);
    expect(task.status).toBe("done");
    expect(runs.map((run) => run.outcome)).toEqual(["succeeded"]);
    expect(scheduler.context.reaperCounters).toMatchObject({
      ...{ sweeps: 2, finalizerExpired: 0, reapedRequeued: 0, reapedFailed: 0, errors: 0 },
    });
  });
});

describe("a clock's being set back is told from", () => {
  test.each<[string, number, number, number]>([
    ["nothing", 0, 0, 0],
    ["time passing", 60_000, 60_000, 0],
    ["running slower than it should", 60_000, 59_970, 0],
    ["being set forward", 10, HOUR_MS, 0],
    ["being set back", 10, -HOUR_MS, HOUR_MS + 10],
  ])("%s", (_, monotonicMs, wallMs, backMs) => {
    const clock = new FakeClock();
    const watch = new WallClockWatch(clock);
    const before = clock.now();
    clock.advance(monotonicMs);
    clock.setWall(before + wallMs);
    expect(watch.setBackMs()).toBe(backMs);
    if (backMs > 0) watch.heeded(backMs);
    expect(watch.setBackMs()).toBe(0);
  });

  test("a step that could not be written down yet, which is not forgotten", () => {
    const clock = new FakeClock();
    const watch = new WallClockWatch(clock);
    clock.setWall(clock.now() - HOUR_MS);
    expect(watch.setBackMs()).toBe(HOUR_MS);
    expect(watch.setBackMs()).toBe(HOUR_MS);
  });
});
