import { rename } from "node:fs/promises";
import { join } from "node:path";
import { systemClock } from "@orchestrator/shared/clock.ts";
import { expect, test } from "vitest";
import { createSchedulerApp } from "../../../services/scheduler/app.ts";
import { lockDatabase } from "../../helpers/lock_database.ts";
import { makeSite, startTestScheduler } from "../../helpers/scheduler.ts";
import { mountSmallDisk } from "../../helpers/small_disk.ts";
import { postJson, problemOf } from "../../shared/http/harness.ts";
import { keepLog } from "./kept_log.ts";
import { makeReadOnly } from "./read_only_folder.ts";

/** A scheduler, as it is served, whose database has a disk of its own. */
const serve = async () => {
  const site = await makeSite();
  const folder = join(site.folder, "database");
  const disk = await mountSmallDisk(folder);
  const dbUrl = `file:${join(folder, "orchestrator.db")}`;
  const { log, said } = keepLog();
  const scheduler = await startTestScheduler(site, { log, busyLimitMs: 500, config: { dbUrl } });
  const { api, context } = scheduler;
  const stopping = new AbortController().signal;
  const app = createSchedulerApp({ api, config: context.config, log, clock: systemClock, stopping });
  let n = 0;
  const post = () => {
    n += 1;
    return app.request("/tasks", postJson({ work_item_id: `ORCH-${n}`, title: "A title", repo: "shop" }));
  };
  return { app, disk, folder, dbUrl, post, said };
};

test("a request that meets a full disk is answered with 503, which says so, and with 201 once there is room", async () => {
  const { disk, post, said } = await serve();
  await disk.fill();
  const answer = await post();
  expect(answer.headers.get("retry-after")).toBe("5");
  expect(await problemOf(answer)).toMatchObject({
    status: 503,
    code: "unavailable",
    detail: expect.stringContaining("disk that the database is on is full"),
  });
  expect(said("could not be answered now")).toMatchObject([{ level: "warn", err: { code: "SQLITE_FULL" } }]);
  await disk.free();
  expect((await post()).status).toBe(201);
});

test("a request that meets a read-only database is answered with 503, which says so, and with 201 once it can be written", async () => {
  const { folder, dbUrl, post } = await serve();
  // Files that are open stay as they were opened; somebody else's lock has the scheduler open them anew.
  const unlock = await lockDatabase(dbUrl);
  const makeWritable = await makeReadOnly(folder);
  expect((await post()).status).toBe(503);
  await unlock();
  const problem = await problemOf(await post());
  expect(problem).toMatchObject({ status: 503, code: "unavailable" });
  expect(problem.detail).toMatch(/is read-only for this service|cannot be read or written/);
  await makeWritable();
  await expect.poll(async () => (await post()).status, { timeout: 20_000 }).toBe(201);
});

test("a scheduler whose database's folder is gone is not ready, and says why", async () => {
  const { app, folder } = await serve();
  const parent = join(folder, "..");
  await rename(parent, `${parent}.away`);
  const answer = await app.request("/readyz");
  await rename(`${parent}.away`, parent);
  expect(answer.status).toBe(503);
  expect(await answer.json()).toMatchObject({
    ready: false,
    reasons: [expect.stringMatching(/the folder of the database .*ENOENT/)],
  });
  expect((await app.request("/readyz")).status).toBe(200);
});
