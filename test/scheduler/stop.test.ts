import { access, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { openReadOnly } from "@orchestrator/shared/storage/open.ts";
import { readPauses } from "@orchestrator/shared/storage/read_pauses.ts";
import { Storage } from "@orchestrator/shared/storage/storage.ts";
import { describe, expect, test } from "vitest";
import { SystemicFaults } from "../../services/scheduler/systemic_faults.ts";
import { deferred } from "../helpers/deferred.ts";
import { makeSite, postTask, type Site, startTestScheduler } from "../helpers/scheduler.ts";
import { startSchedulerProcess } from "../helpers/scheduler_process.ts";
import { takeOver } from "../helpers/take_over.ts";
import { keepLog } from "./faults/kept_log.ts";

/** Has agents of `analysis` run until the file `go` is there, and then be killed by nobody here. */
const waitingAgents = async (site: Site) => {
  const begun = (workItemId: string) => join(site.folder, `begun.${workItemId}`);
  const go = join(site.folder, "go");
  const script = `touch ${begun("$ORCH_WORK_ITEM_ID")}; while [ ! -e ${go} ]; do sleep 0.02; done; kill -KILL $PPID`;
  await site.hook("analysis", script);
  const isThere = (path: string) =>
    access(path).then(
      () => true,
      () => false,
    );
  return {
    go,
    begun: (workItemId: string) => expect.poll(() => isThere(begun(workItemId)), { timeout: 20_000 }).toBe(true),
  };
};

test("whatever cannot be stopped, the rest is: the database is closed, the lock is free, and each failure is told", async () => {
  const site = await makeSite();
  const { log, said } = keepLog();
  const scheduler = await startTestScheduler(site, { log });
  const { storage, activeRuns } = scheduler.context;
  const failures = ["the runs", "the reaper", "the database"].map((what) => new Error(what));
  activeRuns.all = () => {
    throw failures[0];
  };
  scheduler.reaper.stop = () => Promise.reject(failures[1]);
  storage.close = async () => {
    await Storage.prototype.close.call(storage);
    throw failures[2];
  };
  await expect(scheduler.stop()).rejects.toMatchObject({ name: "StopError", errors: failures });
  expect(said("could not be stopped").map(({ msg }) => msg)).toEqual(
    failures.map(({ message }) => `${message} could not be stopped in order; going on with the rest`),
  );
  await expect(storage.query("SELECT 1")).rejects.toThrow();
  await (await startTestScheduler(site)).stop();
  // For the stop that comes with the end of the test.
  activeRuns.all = () => [];
  scheduler.reaper.stop = async () => {};
  storage.close = async () => {};
});

test("a pause that is still to be written when the scheduler stops is written", async () => {
  const site = await makeSite();
  const { begun, go } = await waitingAgents(site);
  const scheduler = await startTestScheduler(site, { config: { drainMs: 60_000 } });
  const { storage, faults } = scheduler.context;
  for (const workItemId of ["ORCH-1", "ORCH-2", "ORCH-3"]) {
    await postTask(scheduler, { workItemId });
    await begun(workItemId);
  }
  await scheduler.stopClaiming();
  // What is asked for once the third run has ended is the pause: it is held until the stop asks for it, or is over.
  const held = deferred();
  let ended = 0;
  storage.onCommitted((committed) => {
    ended += committed.ended.length;
    if (ended < 3) return;
    storage.write = (work) => held.promise.then(() => Storage.prototype.write.call(storage, work)) as never;
  });
  faults.idle = () => {
    held.resolve();
    return SystemicFaults.prototype.idle.call(faults);
  };
  await writeFile(go, "");
  await scheduler.stop().finally(held.resolve);
  const reader = await openReadOnly(site.config.dbUrl, null);
  expect((await readPauses(reader)).map(({ what }) => what)).toEqual(["agent:analyst"]);
  await reader.close();
});

describe("one that is fenced off while it stops", () => {
  test("gives its agents no time, and says so", async () => {
    const site = await makeSite();
    const { begun } = await waitingAgents(site);
    const fencedOff = deferred<Error>();
    const scheduler = await startTestScheduler(site, {
      config: { leaseTtlMs: 300 },
      guardedBy: "lease",
      onFencedOff: fencedOff.resolve,
    });
    await postTask(scheduler, { workItemId: "ORCH-1" });
    await begun("ORCH-1");
    const stopping = scheduler.stop(3_600_000);
    await takeOver(site);
    await stopping;
    expect(await fencedOff.promise).toMatchObject({ code: "fenced_off" });
  });

  test("says so, should it find out no earlier than when it gives its lease back", async () => {
    const site = await makeSite();
    const fencedOff = deferred<Error>();
    const scheduler = await startTestScheduler(site, { guardedBy: "lease", onFencedOff: fencedOff.resolve });
    await scheduler.stopClaiming();
    await takeOver(site);
    await scheduler.stop();
    expect(await fencedOff.promise).toMatchObject({ code: "fenced_off" });
  });

  test("ends with 75 all the same", async () => {
    const site = await makeSite();
    const { begun } = await waitingAgents(site);
    const scheduler = await startSchedulerProcess(site);
    const url = await scheduler.ready;
    await fetch(`${url}/tasks`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ work_item_id: "ORCH-1", title: "A title", repo: "shop" }),
    });
    await begun("ORCH-1");
    await takeOver(site);
    process.kill(scheduler.pid, "SIGTERM");
    expect(await scheduler.exited).toEqual({ code: 75, signal: null });
  });
});

test("SIGTERM ends one in standby with 0", async () => {
  const site = await makeSite();
  await (await startSchedulerProcess(site)).ready;
  const standby = await startSchedulerProcess(site, { ORCH_STANDBY: "true" });
  await expect
    .poll(() => standby.lines.some(({ msg }) => String(msg).startsWith("in standby")), { timeout: 20_000 })
    .toBe(true);
  process.kill(standby.pid, "SIGTERM");
  expect(await standby.exited).toEqual({ code: 0, signal: null });
  expect(standby.lines.filter(({ level }) => level === "fatal" || level === "error")).toEqual([]);
});
