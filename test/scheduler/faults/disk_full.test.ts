import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { MIN_FREE_BYTES } from "@orchestrator/shared/disk_space.ts";
import { findTask } from "@orchestrator/shared/storage/read_tasks.ts";
import { describe, expect, test } from "vitest";
import { git } from "../../helpers/git.ts";
import { HeldPoints } from "../../helpers/held_points.ts";
import { makeDue, onlyStages } from "../../helpers/on_the_way.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../../helpers/scheduler.ts";
import { mountSmallDisk } from "../../helpers/small_disk.ts";
import { countAgents } from "./count_agents.ts";
import { keepLog } from "./kept_log.ts";
import { rowsSeenByOthers } from "./rows_seen_by_others.ts";

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";

test("with too little space nothing is claimed, which is said; work goes on by itself once there is room", async () => {
  const site = await makeSite();
  const disk = await mountSmallDisk(site.config.workspacesDir);
  const { log, said } = keepLog();
  await disk.leave(MIN_FREE_BYTES - 4096);
  const scheduler = await startTestScheduler(site, { log, config: onlyStages(site, "analysis") });
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await expect.poll(() => said("not claiming").length, { timeout: 20_000 }).toBeGreaterThan(0);
  expect(said("not claiming")[0]).toMatchObject({
    level: "warn",
    folder: site.config.workspacesDir,
    free_bytes: MIN_FREE_BYTES - 4096,
    needed_bytes: MIN_FREE_BYTES,
  });
  const waiting = (await findTask(scheduler.context.storage, { workItemId: "ORCH-1" }))!;
  expect(waiting.jobs.map((job) => job.status)).toEqual(["queued"]);
  expect(waiting.runs).toEqual([]);
  await disk.free();
  const { task, runs } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(task.status).toBe("done");
  expect(runs.map((run) => run.outcome)).toEqual(["succeeded"]);
});

test("a log that cannot be opened is a tool error of the class no_space; the agent is not started", async () => {
  const site = await makeSite();
  const disk = await mountSmallDisk(join(site.config.dataDir, "logs"));
  const agents = await countAgents(site);
  const { log, said } = keepLog();
  const scheduler = await startTestScheduler(site, { log, config: onlyStages(site, "analysis") });
  await disk.refuseFiles();
  await postTask(scheduler, { workItemId: "ORCH-1" });
  const { events, jobs } = await taskWhen(scheduler, "ORCH-1", ({ runs }) => (runs[0]?.outcome ?? null) !== null);
  const retried = { kind: "retried", detail: { outcome: "tool_error", class: "no_space" } };
  expect(events.at(-1)).toMatchObject(retried);
  expect(jobs).toMatchObject([{ status: "queued", attempt: 1, error: expect.stringContaining("no space left") }]);
  expect(said("settled")[0]).toMatchObject({ level: "warn", outcome: "tool_error", class: "no_space" });
  expect(await agents()).toBe(0);
  await disk.free();
  await makeDue(scheduler);
  const { task } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(task.status).toBe("done");
  expect(await agents()).toBe(1);
});

test("a log that can be written no further costs its end, not the work", async () => {
  const site = await makeSite();
  const logs = join(site.config.dataDir, "logs");
  const disk = await mountSmallDisk(logs);
  await site.hook("analysis", `echo begun; yes "a line of output" | head -c 500000\n`);
  const { log, said } = keepLog();
  const scheduler = await startTestScheduler(site, { log, config: onlyStages(site, "analysis") });
  await disk.leave(64 * 1024);
  await postTask(scheduler, { workItemId: "ORCH-1" });
  const { task, runs } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(task.status).toBe("done");
  expect(runs).toMatchObject([{ outcome: "succeeded", exitCode: 0 }]);
  await expect.poll(() => said("could not be written to its end").length, { timeout: 20_000 }).toBe(1);
  expect(said("could not be written to its end")[0]).toMatchObject({ level: "error", err: { code: "no_space" } });
  const path = join(logs, `${runs[0]!.id}.log`);
  expect((await stat(path)).size).toBeLessThanOrEqual(64 * 1024);
  expect(await readFile(path, "utf8")).toMatch(/^begun\n/);

  await disk.free();
  await postTask(scheduler, { workItemId: "ORCH-2" });
  const next = await taskWhen(scheduler, "ORCH-2", isOver);
  await scheduler.context.activeRuns.whenIdle();
  expect((await stat(join(logs, `${next.runs[0]!.id}.log`))).size).toBeGreaterThan(500_000);
});

/** What a finalizer writes into the mirror, before and after the remote has taken the work. */
describe("a mirror whose disk is full: finished work waits, and is published later without its agent", () => {
  test.each(["collect.before", "ref.before"])("%s", async (point) => {
    const site = await makeSite();
    const disk = await mountSmallDisk(site.config.reposDir);
    const agents = await countAgents(site, "head -c 300000 /dev/urandom >large.bin\n");
    const points = new HeldPoints();
    const { log, said } = keepLog();
    const scheduler = await startTestScheduler(site, { log, points, config: onlyStages(site, "development") });
    const held = points.hold(point);
    await postTask(scheduler, { workItemId: "ORCH-1" });
    await held.arrived;
    await disk.fill();
    held.release();
    const { events, runs } = await taskWhen(scheduler, "ORCH-1", ({ runs }) => (runs[0]?.outcome ?? null) !== null);
    expect(runs).toMatchObject([{ outcome: "tool_error", outcomeClass: "no_space", exitCode: 0 }]);
    expect(events.at(-1)).toMatchObject({ kind: "retried", detail: { outcome: "tool_error", class: "no_space" } });
    expect(said("settled")[0]).toMatchObject({ level: "warn", class: "no_space" });

    await disk.free();
    await makeDue(scheduler);
    const { task, jobs } = await taskWhen(scheduler, "ORCH-1", isOver);
    expect(task.status).toBe("done");
    expect(jobs.map((job) => [job.status, job.attempt])).toEqual([["done", 1]]);
    expect(await agents()).toBe(1);
    expect(await git(site.remote, "cat-file", "-s", `${task.head}:large.bin`)).toBe("300000");
    expect(await git(join(site.config.reposDir, "shop.git"), "rev-parse", "work/ORCH-1")).toBe(task.head);
  });
});

test("a disk that is full when the workspace is made is a tool error of the class no_space; the agent is not started", async () => {
  const site = await makeSite();
  const disk = await mountSmallDisk(site.config.workspacesDir);
  const agents = await countAgents(site);
  const points = new HeldPoints();
  const scheduler = await startTestScheduler(site, { points, config: onlyStages(site, "analysis") });
  const held = points.hold("launch.salvaged");
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await held.arrived;
  await disk.fill();
  held.release();
  const { runs } = await taskWhen(scheduler, "ORCH-1", ({ runs }) => (runs[0]?.outcome ?? null) !== null);
  expect(runs).toMatchObject([{ outcome: "tool_error", outcomeClass: "no_space", pid: null }]);
  expect(await agents()).toBe(0);
  await disk.free();
  await makeDue(scheduler);
  expect((await taskWhen(scheduler, "ORCH-1", isOver)).task.status).toBe("done");
  expect(await agents()).toBe(1);
});

test("a settle that finds the disk full is kept and written once there is room: what succeeded is not recorded as failed", async () => {
  const site = await makeSite();
  const folder = join(site.folder, "database");
  const disk = await mountSmallDisk(folder);
  const agents = await countAgents(site);
  const points = new HeldPoints();
  const { log, said } = keepLog();
  const config = { dbUrl: `file:${join(folder, "orchestrator.db")}`, ...onlyStages(site, "analysis") };
  const scheduler = await startTestScheduler(site, { log, points, config });
  const { liveness, storage, reaperCounters } = scheduler.context;
  const held = points.hold("settle.before");
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await held.arrived;
  await disk.fill();
  held.release();
  const complaints = () => said("the database cannot be used");
  await expect.poll(() => complaints().length, { timeout: 20_000 }).toBeGreaterThan(1);
  expect(complaints()[0]).toMatchObject({ level: "error", what: "settle", err: { code: "SQLITE_FULL" } });
  expect(await scheduler.api.readiness()).toEqual([expect.stringContaining("the disk that it is on is full")]);
  await scheduler.reaper.sweep();
  expect(Object.keys(liveness.snapshot())).toHaveLength(1);
  expect(await storage.query("SELECT status FROM jobs")).toEqual([{ status: "running" }]);
  await expect(postTask(scheduler, { workItemId: "ORCH-2" })).rejects.toThrow(/full/);

  await disk.free();
  const { task, runs } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(await scheduler.api.readiness()).toEqual([]);
  expect(task.status).toBe("done");
  expect(runs.map((run) => run.outcome)).toEqual(["succeeded"]);
  expect(await agents()).toBe(1);
  expect(reaperCounters).toMatchObject({ settleSuperseded: 0, errors: 0, reapedRequeued: 0 });

  // What is acknowledged from now on is in the file, too, and what was refused is not.
  await postTask(scheduler, { workItemId: "ORCH-3" });
  await taskWhen(scheduler, "ORCH-3", isOver);
  expect(await rowsSeenByOthers(join(folder, "orchestrator.db"))).toEqual(["ORCH-1", "ORCH-3"]);
  expect(await storage.query("SELECT id FROM tasks")).toHaveLength(2);
  expect(storage.tally.jobs()).toMatchObject({ queued: 0, running: 0, done: 2 });
});

test("a claim that finds the disk full claims nothing and is tried again by itself", async () => {
  const site = await makeSite();
  const folder = join(site.folder, "database");
  const disk = await mountSmallDisk(folder);
  const points = new HeldPoints();
  const { log, said } = keepLog();
  const config = { dbUrl: `file:${join(folder, "orchestrator.db")}`, ...onlyStages(site, "analysis") };
  const scheduler = await startTestScheduler(site, { log, points, config });
  await expect.poll(() => points.reached.includes("claim.before")).toBe(true);
  const held = points.hold("claim.before");
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await held.arrived;
  await disk.fill();
  held.release();
  await expect.poll(() => said("no job could be claimed").length, { timeout: 20_000 }).toBe(1);
  expect(said("no job could be claimed")[0]).toMatchObject({ level: "error", err: { code: "SQLITE_FULL" } });
  expect(await scheduler.context.storage.query("SELECT id FROM agent_runs")).toEqual([]);
  expect(scheduler.context.activeRuns.all()).toEqual([]);
  await disk.free();
  const { task, runs } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(task.status).toBe("done");
  expect(runs.map((run) => run.outcome)).toEqual(["succeeded"]);
});
