import { rename } from "node:fs/promises";
import { dirname, join } from "node:path";
import { isPassing } from "@orchestrator/shared/storage/is_passing.ts";
import { expect, test } from "vitest";
import { HeldPoints } from "../../helpers/held_points.ts";
import { insertTaskWithJob } from "../../helpers/insert.ts";
import { lockDatabase } from "../../helpers/lock_database.ts";
import { onlyStages } from "../../helpers/on_the_way.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../../helpers/scheduler.ts";
import { mountSmallDisk } from "../../helpers/small_disk.ts";
import { openTestStorage } from "../../helpers/storage.ts";
import { countAgents } from "./count_agents.ts";
import { keepLog } from "./kept_log.ts";
import { makeReadOnly } from "./read_only_folder.ts";
import { rowsSeenByOthers } from "./rows_seen_by_others.ts";

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";

test("a database that has become read-only refuses what is new, keeps a settle waiting, and goes on when it can be written", async () => {
  const site = await makeSite();
  const folder = join(site.folder, "database");
  await mountSmallDisk(folder);
  const agents = await countAgents(site);
  const points = new HeldPoints();
  const { log, said } = keepLog();
  const config = { dbUrl: `file:${join(folder, "orchestrator.db")}`, ...onlyStages(site, "analysis") };
  const scheduler = await startTestScheduler(site, { log, points, config });
  const { liveness, reaperCounters, storage } = scheduler.context;
  const held = points.hold("settle.before");
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await held.arrived;
  // Files that are open stay as they were opened; somebody else's lock has the scheduler open them anew.
  const unlock = await lockDatabase(config.dbUrl);
  const makeWritable = await makeReadOnly(folder);
  held.release();
  await expect.poll(() => scheduler.api.readiness(), { timeout: 20_000 }).not.toEqual([]);
  await unlock();
  const complaints = () => said("the database cannot be used");
  await expect.poll(() => complaints().length, { timeout: 20_000 }).toBeGreaterThan(1);
  expect(complaints()[0]).toMatchObject({
    level: "error",
    what: "settle",
    err: { code: expect.stringMatching(/^SQLITE_/) },
  });
  expect(await scheduler.api.readiness()).toEqual([expect.stringContaining("the database cannot be written")]);
  await expect(postTask(scheduler, { workItemId: "ORCH-2" })).rejects.toThrow();
  expect(Object.keys(liveness.snapshot())).toHaveLength(1);
  expect(await storage.query("SELECT status FROM jobs")).toEqual([{ status: "running" }]);

  await makeWritable();
  const { task, runs } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(task.status).toBe("done");
  expect(runs.map((row) => row.outcome)).toEqual(["succeeded"]);
  expect(await agents()).toBe(1);
  expect(reaperCounters).toMatchObject({ settleSuperseded: 0, errors: 0 });
  await postTask(scheduler, { workItemId: "ORCH-3" });
  await taskWhen(scheduler, "ORCH-3", isOver);
  expect(await rowsSeenByOthers(join(folder, "orchestrator.db"))).toEqual(["ORCH-1", "ORCH-3"]);
  expect(await scheduler.api.readiness()).toEqual([]);
});

test("a database whose folder is away for a moment is opened again when it is back, and what was refused is not in it", async () => {
  const { storage, path, url } = await openTestStorage({ busyLimitMs: 2_000 });
  await insertTaskWithJob(storage, { workItemId: "ORCH-1" });
  const folder = dirname(path);
  const unlock = await lockDatabase(url);
  await rename(folder, `${folder}.away`);
  const refused = await insertTaskWithJob(storage, { workItemId: "ORCH-2" }).catch((error: unknown) => error);
  expect(isPassing(refused), String(refused)).toBe(true);
  const again = await storage.query("SELECT id FROM tasks").catch((error: unknown) => error);
  expect(Array.isArray(again) || isPassing(again), String(again)).toBe(true);
  await rename(`${folder}.away`, folder);
  await unlock();
  await insertTaskWithJob(storage, { workItemId: "ORCH-3" });
  expect(await rowsSeenByOthers(path)).toEqual(["ORCH-1", "ORCH-3"]);
  expect(storage.tally.jobs()).toMatchObject({ queued: 2 });
});
