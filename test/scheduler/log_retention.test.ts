import { mkdir, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { LogRetention, oldestBeyond, type StoredLog } from "../../services/scheduler/log_retention.ts";
import { onlyStages } from "../helpers/on_the_way.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../helpers/scheduler.ts";
import { tempFolder } from "../helpers/temp_folder.ts";
import { keepLog } from "./faults/kept_log.ts";

const KIB = 1024;

describe("which logs go", () => {
  /** Sizes in KiB. */
  const logs = (...sizes: number[]): StoredLog[] =>
    sizes.map((size, index) => ({ runId: index + 1, bytes: size * KIB, writtenMs: index }));

  test.each<[string, StoredLog[], number, number[]]>([
    ["none, where there is room", logs(10, 10), 20, []],
    ["the oldest alone, where that is enough", logs(10, 10), 19, [1]],
    ["as many as it takes", logs(10, 10, 10), 5, [1, 2, 3]],
    ["none of the newest, however large the oldest is", logs(100, 4, 4), 10, [1]],
    ["an empty one as any: it takes what a file takes", logs(0, 0, 0, 0), 8, [1, 2]],
    ["a short one as an empty one", logs(1, 4, 0), 8, [1]],
    ["nothing of nothing", [], 0, []],
    [
      "by when they were written to, not by number: a database that was put back gives numbers a second time",
      [
        { runId: 1, bytes: 10 * KIB, writtenMs: 5 },
        { runId: 2, bytes: 10 * KIB, writtenMs: 3 },
      ],
      10,
      [2],
    ],
    [
      "of two that were written to at the same time the one with the smaller number",
      [
        { runId: 2, bytes: 10 * KIB, writtenMs: 5 },
        { runId: 1, bytes: 10 * KIB, writtenMs: 5 },
      ],
      10,
      [1],
    ],
  ])("%s", (_, stored, keepKib, expected) => {
    expect(oldestBeyond(stored, keepKib * KIB).map(({ runId }) => runId)).toEqual(expected);
  });
});

describe("in a folder", () => {
  const setUp = async (open: number[] = []) => {
    const dataDir = await tempFolder();
    const folder = join(dataDir, "logs");
    const { log, lines } = keepLog();
    const retention = new LogRetention({
      dataDir,
      keepBytes: 1600 * KIB,
      isOpen: (runId) => open.includes(runId),
      log,
    });
    const write = async (name: string, kib: number, seconds: number) => {
      await mkdir(folder, { recursive: true });
      await writeFile(join(folder, name), "x".repeat(kib * KIB));
      await utimes(join(folder, name), seconds, seconds);
    };
    return { folder, retention, write, lines, names: async () => (await readdir(folder)).sort() };
  };

  test("the oldest go at the start, and what is no log of a run stays", async () => {
    const { retention, write, names } = await setUp();
    await write("1.log", 600, 1);
    await write("2.log", 600, 2);
    await write("3.log", 600, 3);
    await write("notes.txt", 5000, 0);
    await write("01.log", 5000, 0);
    retention.start();
    await retention.idle();
    expect(await names()).toEqual(["01.log", "2.log", "3.log", "notes.txt"]);
  });

  test("one that is being written stays, however old", async () => {
    const { retention, write, names } = await setUp([1]);
    await write("1.log", 5000, 1);
    await write("2.log", 1000, 2);
    await write("3.log", 1000, 3);
    retention.start();
    await retention.idle();
    expect(await names()).toEqual(["1.log", "3.log"]);
  });

  test("nothing is looked at until a sixteenth of the limit was written", async () => {
    const { retention, write, names } = await setUp();
    await write("1.log", 5000, 1);
    retention.grown(100 * KIB - 1);
    await retention.idle();
    expect(await names()).toEqual(["1.log"]);
    retention.grown(1);
    await retention.idle();
    expect(await names()).toEqual([]);
  });

  test("empty ones are looked at as well, and are no more in the end than the limit has room for", async () => {
    const { retention, write, names } = await setUp();
    for (let runId = 1; runId <= 500; runId++) {
      await write(`${runId}.log`, 0, runId);
      retention.grown(0);
      await retention.idle();
    }
    // A file takes 4 KiB, and a look, which comes each 25 files, leaves a sixteenth of the limit free.
    expect((await names()).map((name) => Number.parseInt(name, 10)).sort((a, b) => a - b)).toEqual(
      Array.from({ length: 375 }, (_, n) => n + 126),
    );
  });

  test("where there is none yet, that is no fault", async () => {
    const { retention, lines } = await setUp();
    retention.start();
    await retention.idle();
    expect(lines).toEqual([]);
  });

  test("a log that cannot be removed is said, and tried again", async () => {
    const { folder, retention, write, names, lines } = await setUp();
    await mkdir(join(folder, "1.log", "in the way"), { recursive: true });
    await utimes(join(folder, "1.log"), 1, 1);
    await write("2.log", 5000, 2);
    retention.start();
    await retention.idle();
    expect(lines).toMatchObject([{ level: "error", folder }]);
    await rm(join(folder, "1.log"), { recursive: true });
    retention.start();
    await retention.idle();
    expect(await names()).toEqual([]);
  });
});

test("a scheduler keeps the logs of its runs below the limit; one that is gone is said to be", async () => {
  const site = await makeSite({ logMaxBytes: 1024 ** 2, logKeepBytes: 1024 ** 2 });
  await site.hook("any", "head -c 300000 /dev/zero\n");
  const scheduler = await startTestScheduler(site, { config: onlyStages(site, "analysis", "architecture") });
  for (const workItemId of ["ORCH-1", "ORCH-2"]) {
    await postTask(scheduler, { workItemId });
    await taskWhen(scheduler, workItemId, ({ task }) => task.status === "done");
  }
  await scheduler.context.activeRuns.whenIdle();
  await expect.poll(() => scheduler.api.openLog(1, { follow: false })).toEqual({ kind: "no_log" });
  await scheduler.stop();
  expect((await readdir(join(site.config.dataDir, "logs"))).sort()).toEqual(["2.log", "3.log", "4.log"]);
});
