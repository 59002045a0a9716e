import { execFileSync } from "node:child_process";
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "@orchestrator/shared/clock.ts";
import { endProcesses, findMarked } from "@orchestrator/shared/process/end_processes.ts";
import {
  isAlive,
  isRunning,
  listPids,
  parseStat,
  readCwd,
  readEnviron,
  readProcess,
} from "@orchestrator/shared/process/proc_table.ts";
import { describe, expect, test } from "vitest";
import { startProgram, startScript, startZombie, tempFolder } from "./real.ts";

const stat = (name: string, state = "S", threads = 1): string =>
  `41 (${name}) ${state} 7 41 40 0 -1 4194304 100 0 0 0 0 0 0 0 20 0 ${threads} 0 88676 3133440 387 0\n`;

describe("parseStat", () => {
  test.each([["sh"], ["a b"], ["a) Z 1 (b"], ["(("], ["))"], ["new\nline"], [""]])("reads past the name %j", (name) => {
    expect(parseStat(stat(name))).toEqual({
      pid: 41,
      ppid: 7,
      pgid: 41,
      session: 40,
      state: "S",
      threads: 1,
      started: 88676,
    });
  });

  test.each([[""], ["41"], ["41 (sh)"], ["x (sh) S 1 2 3"], ["41 (sh) S 7 41"]])("refuses %j", (text) => {
    expect(parseStat(text)).toBeNull();
  });
});

test.each([
  ["S", 1, true],
  ["D", 1, true],
  ["T", 1, true],
  ["Z", 1, false],
  ["Z", 3, true],
  ["X", 1, false],
])("a process in state %s with %i threads: running %s", (state, threads, running) => {
  expect(isRunning(parseStat(stat("sh", state, threads))!)).toBe(running);
});

test("a process shows its parent, its group and a start time that tells it from others", async () => {
  const { pid, started } = await startScript("echo ready; sleep 60");
  expect(readProcess(pid)).toMatchObject({ pid, ppid: process.pid, pgid: pid, session: pid, started });
  expect(listPids()).toContain(pid);
  expect(isAlive(pid, started)).toBe(true);
  expect(isAlive(pid, started + 1)).toBe(false);
});

test("a real process with a blank and a parenthesis in its name is read", async () => {
  const program = join(tempFolder(), "a) Z 1 (b");
  copyFileSync("/bin/sh", program);
  const { pid, started } = await startProgram([program, "-c", "echo ready; read forever < /dev/zero; :"]);
  expect(readProcess(pid)).toMatchObject({ pid, ppid: process.pid, started });
  expect(isAlive(pid, started)).toBe(true);
});

test("a zombie that nobody reaps is dead", async () => {
  const { pid, started } = await startZombie();
  expect(readProcess(pid)).toMatchObject({ state: "Z", started });
  expect(isAlive(pid, started)).toBe(false);
});

test("a pid that nobody has", () => {
  const unused = 2 ** 30;
  expect(readProcess(unused)).toBeNull();
  expect(readEnviron(unused)).toBeNull();
  expect(readCwd(unused)).toBeNull();
  expect(isAlive(unused, 1)).toBe(false);
});

test("environment and working directory are those that the process has", async () => {
  const folder = tempFolder();
  const env = { PLAIN: "a=b", EMPTY: "", LINES: "one\ntwo", WORD: "schön" };
  const { pid } = await startScript("echo ready; sleep 60", { env, cwd: folder });
  expect(readEnviron(pid)).toMatchObject(env);
  expect(readCwd(pid)).toBe(folder);
});

/** Goes to a folder whose path is longer than the kernel tells, and says so. */
const GO_DEEP = `name=$(printf '%0200d' 0)
for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25; do mkdir "$name" && cd -P "$name" || exit; done
echo ready; exec sleep 60`;

test("a process that works deeper than a path can be told is known by where it is below", async () => {
  const folder = tempFolder();
  try {
    const { pid, started } = await startScript(GO_DEEP, { cwd: folder });
    expect(readCwd(pid)).toMatch(new RegExp(`^${folder}/0{200}/`));
    // Whoever looks for another folder's processes is not kept from it by this one; whoever looks for its own finds it.
    const clock = systemClock;
    expect(findMarked({ folder: join(folder, "other") })).toEqual([]);
    expect(await endProcesses({ marks: { folder }, graceMs: 5000, clock })).toEqual({ ended: 1, survivors: [] });
    expect(isAlive(pid, started)).toBe(false);
  } finally {
    // The runtime cannot remove so deep a tree.
    execFileSync("rm", ["-rf", folder]);
  }
});

test("what another user's process hides reads as null", async () => {
  const { pid } = await startScript("echo ready; sleep 60");
  const isRoot = process.geteuid!() === 0;
  // Root sees everything, so it becomes someone else for a moment; everyone else cannot look into pid 1.
  if (isRoot) process.seteuid!(65534);
  try {
    expect(readEnviron(isRoot ? pid : 1)).toBeNull();
    expect(readCwd(isRoot ? pid : 1)).toBeNull();
  } finally {
    if (isRoot) process.seteuid!(0);
  }
});
