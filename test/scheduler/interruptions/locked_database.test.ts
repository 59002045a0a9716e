import { setTimeout as sleep } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import { HeldPoints } from "../../helpers/held_points.ts";
import { lockDatabase } from "../../helpers/lock_database.ts";
import { onlyStages } from "../../helpers/on_the_way.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../../helpers/scheduler.ts";

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";

test("a hung finalizer that expires while the database is locked is aborted when its end is recorded, not before", async () => {
  const site = await makeSite({ finalizerMaxMs: 0 });
  const points = new HeldPoints();
  const scheduler = await startTestScheduler(site, { points, config: onlyStages(site, "analysis") });
  const { storage, liveness, reaperCounters } = scheduler.context;
  const held = points.hold("gate.read");
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await held.arrived;
  const order: string[] = [];
  storage.onCommitted(({ ended }) => order.push(...ended.map((run) => run.class ?? run.outcome)));
  vi.spyOn(liveness, "abort").mockImplementation((jobId, runId, reason) => {
    order.push("aborted");
    return Object.getPrototypeOf(liveness).abort.call(liveness, jobId, runId, reason);
  });
  const unlock = await lockDatabase(site.config.dbUrl);
  const swept = scheduler.reaper.sweep();
  await sleep(600);
  expect(order).toEqual([]);
  expect(reaperCounters).toMatchObject({ finalizerExpired: 0, errors: 0 });
  expect(Object.keys(liveness.snapshot())).toHaveLength(1);
  await unlock();
  await swept;
  expect(order).toEqual(["finalizer_expired", "aborted"]);
  expect(reaperCounters).toMatchObject({ finalizerExpired: 1, errors: 0 });
  expect(await storage.query("SELECT status, attempt FROM jobs")).toEqual([{ status: "queued", attempt: 1 }]);

  held.release();
  await expect.poll(() => points.reached.filter((name) => name === "clear.after").length).toBe(1);
  expect(await storage.query("SELECT outcome, outcome_class FROM agent_runs")).toEqual([
    { outcome: "tool_error", outcomeClass: "finalizer_expired" },
  ]);
});

test("the age of a mark stands still while the settle waits for a locked database: what succeeded is not taken for hung", async () => {
  const site = await makeSite();
  const points = new HeldPoints();
  const config = { finalizerMaxMs: 1_000_000, ...onlyStages(site, "analysis") };
  const scheduler = await startTestScheduler(site, { points, config });
  const { liveness, storage, reaperCounters } = scheduler.context;
  const held = points.hold("settle.before");
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await held.arrived;
  const unlock = await lockDatabase(site.config.dbUrl);
  const [jobId] = liveness.jobIds();
  const begun = liveness.see(jobId!)!.ageMs;
  // From here on a finalizer that works for half a second more is a hung one.
  scheduler.context.config.finalizerMaxMs = begun + 500;
  held.release();
  for (let look = 0; look < 4; look++) {
    await sleep(300);
    await Promise.race([scheduler.reaper.sweep(), sleep(300)]);
  }
  expect(liveness.see(jobId!)!.ageMs - begun).toBeLessThan(500);
  expect(await storage.query("SELECT status FROM jobs")).toEqual([{ status: "running" }]);
  await unlock();
  const { task, runs } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(task.status).toBe("done");
  expect(runs.map((run) => run.outcome)).toEqual(["succeeded"]);
  expect(reaperCounters).toMatchObject({ finalizerExpired: 0, settleSuperseded: 0, errors: 0 });
});

test("a scheduler whose database a foreign program has locked is not ready, says why in time, and is ready again after that", async () => {
  const site = await makeSite();
  const scheduler = await startTestScheduler(site);
  expect(await scheduler.api.readiness()).toEqual([]);
  const unlock = await lockDatabase(site.config.dbUrl);
  const askedAt = performance.now();
  const locked = await scheduler.api.readiness();
  expect(locked).toEqual([expect.stringContaining("database")]);
  expect(performance.now() - askedAt).toBeLessThan(4_000);
  await unlock();
  await expect.poll(() => scheduler.api.readiness(), { timeout: 10_000 }).toEqual([]);
});
