import { type ChildProcess, execFile } from "node:child_process";
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { systemClock } from "@orchestrator/shared/clock.ts";
import { isThere } from "@orchestrator/shared/is_there.ts";
import { findMarked } from "@orchestrator/shared/process/end_processes.ts";
import { describe, expect, onTestFinished, test } from "vitest";
import { clearLeftovers } from "../../services/stager/leftovers.ts";
import { Scratch } from "../../services/stager/scratch.ts";
import { projectRoot, runtimeArgv } from "../helpers/runtime.ts";
import { tempFolder } from "../helpers/temp_folder.ts";
import { startProgram, until } from "./harness.ts";

const log = { info: () => {}, warn: () => {} };
const clear = (scratchDir: string) => clearLeftovers({ scratchDir, clock: systemClock, log });

/** A stager of another process that works a run. */
const startStager = async (
  root: string,
  instanceId: string,
  runId: number,
): Promise<{ child: ChildProcess; folder: string }> => {
  const argv = runtimeArgv("test/stager/fixtures/stager_with_a_run.ts");
  const child = startProgram([...argv, root, instanceId, String(runId)], {
    cwd: projectRoot,
    env: process.env as Record<string, string>,
  });
  for await (const line of createInterface({ input: child.stdout! })) return { child, folder: line };
  throw new Error("the stager ended before it had started anything");
};

const kill = async (child: ChildProcess): Promise<void> => {
  const exited = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGKILL");
  await exited;
};

describe("clearLeftovers", () => {
  test("ends what a killed stager left and removes it; a stager that is alive is left alone", async () => {
    const root = await tempFolder();
    const instanceId = `left-${process.pid}`;
    onTestFinished(async () => {
      for (const { pid } of findMarked({ instanceId, folder: root })) process.kill(pid, "SIGKILL");
      await until(() => findMarked({ instanceId, folder: root }).length === 0);
    });
    const [dead, alive] = await Promise.all([startStager(root, instanceId, 5), startStager(root, instanceId, 6)]);
    const processesOf = (folder: string, runId: number): number => findMarked({ instanceId, runId, folder }).length;
    expect(processesOf(dead.folder, 5)).toBe(3);
    expect(processesOf(alive.folder, 6)).toBe(3);

    await kill(dead.child);
    expect(processesOf(dead.folder, 5)).toBe(3);
    expect(await clear(root)).toEqual({ processes: 3, folders: 1 });
    expect(processesOf(dead.folder, 5)).toBe(0);
    expect(await isThere(dead.folder)).toBe(false);
    expect(processesOf(alive.folder, 6)).toBe(3);
    expect(await isThere(join(alive.folder, "runs", "6", "work"))).toBe(true);

    await kill(alive.child);
    expect(await clear(root)).toEqual({ processes: 3, folders: 1 });
    expect(await readdir(root)).toEqual([]);
  });

  test("has nothing to do where there is no scratch directory yet, and leaves alone what is no stager's", async () => {
    const root = await tempFolder();
    expect(await clear(join(root, "none"))).toEqual({ processes: 0, folders: 0 });
    await mkdir(join(root, "cache", "shop"), { recursive: true });
    await writeFile(join(root, "stager-notes.txt"), "");
    expect(await clear(root)).toEqual({ processes: 0, folders: 0 });
    expect((await readdir(root)).sort()).toEqual(["cache", "stager-notes.txt"]);
  });

  test("removes a folder whose stager died before it had locked it or noted its run", async () => {
    const root = await tempFolder();
    await mkdir(join(root, "stager-0123456789abcdef", "runs", "7"), { recursive: true });
    await writeFile(join(root, "stager-0123456789abcdef", "runs", "7", "run.json"), '{"inst');
    expect(await clear(root)).toEqual({ processes: 0, folders: 1 });
    expect(await readdir(root)).toEqual([]);
  });

  test("removes folders that a step has nested deeper than a path can name", async () => {
    const root = await tempFolder();
    const work = join(root, "stager-0123456789abcdef", "runs", "7", "work");
    await mkdir(work, { recursive: true });
    const nest =
      "n=0; while [ $n -lt 300 ]; do mkdir ddddddddddddddd; cd -P ddddddddddddddd; n=$((n + 1)); done; echo x >f";
    await promisify(execFile)("sh", ["-ec", nest], { cwd: work });
    expect(await clear(root)).toEqual({ processes: 0, folders: 1 });
    expect(await readdir(root)).toEqual([]);
  });

  test("does not take this process's own folder for a leftover", async () => {
    const root = await tempFolder();
    const scratch = await Scratch.open(root);
    expect(await clear(root)).toEqual({ processes: 0, folders: 0 });
    expect(await isThere(scratch.folder)).toBe(true);
    await scratch.close();
    expect(await readdir(root)).toEqual([]);
  });
});

describe("Scratch", () => {
  test("a run's folder is made empty, whatever stands there", async () => {
    const scratch = await Scratch.open(await tempFolder());
    onTestFinished(() => scratch.close());
    const first = await scratch.makeRunFolder({ instanceId: "i", runId: 5 });
    await writeFile(join(first, "left"), "");
    const second = await scratch.makeRunFolder({ instanceId: "i", runId: 5 });
    expect(second).toBe(first);
    expect(await readdir(second)).toEqual(["run.json"]);
  });

  test.each([
    ["shop", "shop"],
    ["../shop", "%2E.%2Fshop"],
    [".", "%2E"],
    ["..", "%2E."],
    ["a/b", "a%2Fb"],
  ])("the cache of %s has a folder of its own", async (repo, name) => {
    const root = await tempFolder();
    const scratch = await Scratch.open(root);
    onTestFinished(() => scratch.close());
    expect(await scratch.cacheFolder(repo)).toBe(join(root, "cache", name));
    expect(await readdir(join(root, "cache"))).toEqual([name]);
  });
});
