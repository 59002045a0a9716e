import { readdir, readlink } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { takeSchedulerLock } from "../../services/scheduler/scheduler_lock.ts";
import { makeSite } from "../helpers/scheduler.ts";
import { startSchedulerProcess } from "../helpers/scheduler_process.ts";
import { keepLog } from "./faults/kept_log.ts";

/** How many descriptors this process has open on files of a folder. */
const filesOpenIn = async (folder: string): Promise<number> => {
  const descriptors = await readdir("/proc/self/fd");
  const files = await Promise.all(descriptors.map((n) => readlink(join("/proc/self/fd", n)).catch(() => "")));
  return files.filter((file) => file.startsWith(folder)).length;
};

/** Stands by for the lock of a scheduler that runs in another process. */
const standBy = async (lookMs: number) => {
  const site = await makeSite();
  const first = await startSchedulerProcess(site);
  await first.ready;
  const { log, said } = keepLog();
  const stopping = new AbortController();
  const taking = takeSchedulerLock(site.config.dbUrl, {
    ...{ config: { standby: true }, log, signal: stopping.signal, lookMs },
  });
  taking.catch(() => undefined);
  await expect.poll(() => said("in standby")).toMatchObject([{ holder: { pid: first.pid } }]);
  return { first, taking, stopping, folder: site.config.dataDir };
};

test("who stands by has no more files open the longer it waits, and follows when the other has been killed", async () => {
  const { first, taking, folder } = await standBy(1);
  const open = await filesOpenIn(folder);
  await sleep(300);
  expect(await filesOpenIn(folder)).toBeLessThanOrEqual(open);
  await first.killHard();
  (await taking).release();
});

test("who stands by heeds a stop", async () => {
  const { taking, stopping } = await standBy(3_600_000);
  stopping.abort();
  await expect(taking).rejects.toMatchObject({ name: "AbortError" });
});
