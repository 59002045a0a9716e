import { fileOfUrl } from "@orchestrator/shared/storage/connection.ts";
import { expect, test } from "vitest";
import { HeldPoints } from "../../helpers/held_points.ts";
import { lockDatabase } from "../../helpers/lock_database.ts";
import { onlyStages } from "../../helpers/on_the_way.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../../helpers/scheduler.ts";
import { countAgents } from "./count_agents.ts";
import { keepLog } from "./kept_log.ts";
import { rowsSeenByOthers } from "./rows_seen_by_others.ts";

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";

/** A scheduler that gives a locked database up soon. */
const start = async () => {
  const site = await makeSite({ reaperGraceMs: 0 });
  const agents = await countAgents(site);
  const points = new HeldPoints();
  const { log, said } = keepLog();
  const config = onlyStages(site, "analysis");
  const scheduler = await startTestScheduler(site, { log, points, busyLimitMs: 300, config });
  await expect.poll(() => points.reached.includes("claim.before")).toBe(true);
  return { site, agents, points, said, scheduler };
};

test("a database that is locked for longer than a settle waits: the outcome is kept, written after that, and the reaper stays off", async () => {
  const { site, agents, points, said, scheduler } = await start();
  const { liveness, reaperCounters, storage } = scheduler.context;
  const held = points.hold("settle.before");
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await held.arrived;
  const unlock = await lockDatabase(site.config.dbUrl);
  held.release();
  const complaints = () => said("the database cannot be used");
  await expect.poll(() => complaints().length, { timeout: 20_000 }).toBeGreaterThan(1);
  expect(complaints()[0]).toMatchObject({
    level: "error",
    what: "settle",
    err: { code: "storage_busy", message: expect.stringContaining("locked by another program") },
  });
  for (let sweep = 0; sweep < 3; sweep++) await scheduler.reaper.sweep();
  expect(Object.keys(liveness.snapshot())).toHaveLength(1);
  expect(reaperCounters).toMatchObject({ skippedLiveFinalizer: 3, errors: 0 });
  expect(await storage.query("SELECT status FROM jobs")).toEqual([{ status: "running" }]);
  await expect(postTask(scheduler, { workItemId: "ORCH-2" })).rejects.toMatchObject({ code: "storage_busy" });

  await unlock();
  const { task, runs, jobs } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(task.status).toBe("done");
  expect(runs.map((run) => run.outcome)).toEqual(["succeeded"]);
  expect(jobs.map((job) => [job.status, job.attempt])).toEqual([["done", 1]]);
  expect(await agents()).toBe(1);
  expect(reaperCounters).toMatchObject({ settleSuperseded: 0, reapedRequeued: 0, errors: 0 });
  expect(await rowsSeenByOthers(fileOfUrl(site.config.dbUrl))).toEqual(["ORCH-1"]);
});

test("a database that is locked for longer than a claim waits: nothing is claimed, and that is tried again by itself", async () => {
  const { site, agents, points, said, scheduler } = await start();
  const held = points.hold("claim.before");
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await held.arrived;
  const unlock = await lockDatabase(site.config.dbUrl);
  held.release();
  await expect.poll(() => said("no job could be claimed").length, { timeout: 20_000 }).toBe(1);
  expect(said("no job could be claimed")[0]).toMatchObject({ level: "error", err: { code: "storage_busy" } });
  expect(scheduler.context.activeRuns.all()).toEqual([]);
  expect(await scheduler.context.storage.query("SELECT id FROM agent_runs")).toEqual([]);
  await unlock();
  const { task, runs } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(task.status).toBe("done");
  expect(runs.map((run) => [run.outcome, run.attempt])).toEqual([["succeeded", 1]]);
  expect(await agents()).toBe(1);
  expect(scheduler.context.storage.tally.jobs()).toMatchObject({ queued: 0, running: 0, done: 1 });
});
