import { rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { FencedOffError } from "@orchestrator/shared/storage/check_epoch.ts";
import { takeKernelLock } from "@orchestrator/shared/storage/kernel_lock.ts";
import { expect, onTestFinished, test } from "vitest";
import { LockKeeper } from "../../services/scheduler/lock_keeper.ts";
import { tempFolder } from "../helpers/temp_folder.ts";
import { keepLog } from "./faults/kept_log.ts";

const keptLock = async (checkFence: () => Promise<void> = async () => {}) => {
  const path = join(await tempFolder(), "scheduler.lock.db");
  const lock = (await takeKernelLock(path))!;
  let looks = 0;
  const storage = {
    checkFence: () => {
      looks += 1;
      return checkFence();
    },
  };
  const { log, lines } = keepLog();
  const keeper = new LockKeeper({ lock, storage, log });
  onTestFinished(async () => {
    await keeper.stop();
    lock.release();
  });
  return { path, keeper, lines, fenceLooks: () => looks };
};

test("a lock file that is where it was is nothing to speak of, and costs the database nothing", async () => {
  const { keeper, lines, fenceLooks } = await keptLock();
  for (let n = 0; n < 3; n++) await keeper.look();
  expect([lines, fenceLooks()]).toEqual([[], 0]);
});

const DISPLACED: Record<string, (path: string) => Promise<void>> = {
  "it is gone": (path) => rm(path),
  "another file stands in its place": async (path) => {
    await rename(path, `${path}.old`);
    await writeFile(path, "");
  },
};

test.each(Object.keys(DISPLACED))(
  "%s: said once, with what to do, and the fence is looked at each time",
  async (what) => {
    const { path, keeper, lines, fenceLooks } = await keptLock();
    await DISPLACED[what]!(path);
    for (let n = 0; n < 3; n++) await keeper.look();
    expect(lines.map(({ level, msg }) => [level, msg])).toEqual([
      [
        "error",
        `the lock file ${path} keeps other schedulers off no longer: ${what}. Restart this scheduler, so that it takes the lock ` +
          "anew, and leave the file where it is while one runs",
      ],
    ]);
    expect(fenceLooks()).toBe(3);
  },
);

test("a file that is back in its place is the lock again; its next loss is said anew", async () => {
  const { path, keeper, lines } = await keptLock();
  const look = async (move: () => Promise<void>) => {
    await move();
    await keeper.look();
    return lines.length;
  };
  const away = () => rename(path, `${path}.old`);
  const back = () => rename(`${path}.old`, path);
  expect([await look(away), await look(back), await look(away)]).toEqual([1, 1, 2]);
});

test("the loss of the fence is the storage's to tell; a database that cannot be read is looked at again", async () => {
  const faults: Error[] = [new FencedOffError(1, 2), new Error("the disk does not answer")];
  const { path, keeper, lines, fenceLooks } = await keptLock(async () => {
    throw faults.shift();
  });
  await rm(path);
  await keeper.look();
  await keeper.look();
  expect(fenceLooks()).toBe(2);
  expect(lines.map(({ msg, err }) => [msg.slice(0, 13), (err as Error | undefined)?.message])).toEqual([
    ["the lock file", undefined],
    ["whether anoth", "the disk does not answer"],
  ]);
});
