import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { copyFileSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "@orchestrator/shared/clock.ts";
import {
  endMatching,
  endProcesses,
  findMarked,
  type Marks,
  signalProcess,
} from "@orchestrator/shared/process/end_processes.ts";
import { findMatching, protectedPids } from "@orchestrator/shared/process/find_processes.ts";
import { killLeftovers } from "@orchestrator/shared/process/kill_leftovers.ts";
import { isAlive, listPids, type ProcessEntry, readProcess } from "@orchestrator/shared/process/proc_table.ts";
import { expect, onTestFinished, test, vi } from "vitest";
import { isUp, startProgram, startScript, startZombie, tempFolder, until } from "./real.ts";

const clock = systemClock;
const newMarks = (runId = 7) => {
  const instanceId = randomUUID();
  return {
    marks: { instanceId, runId } satisfies Marks,
    env: { ORCH_INSTANCE_ID: instanceId, ORCH_RUN_ID: String(runId) },
  };
};
/** A shell that SIGTERM does not end. */
const STUBBORN = `trap "" TERM; echo ready; while :; do sleep 1; done`;

test("the group is ended with all that is in it, whatever it carries", async () => {
  const leader = await startScript("env -i sleep 60 & echo bare=$!; echo ready; sleep 60");
  const result = await endProcesses({ group: leader, marks: newMarks().marks, graceMs: 5000, clock });
  expect(result.survivors).toEqual([]);
  expect(result.ended).toBeGreaterThanOrEqual(2);
  expect([leader, leader.pids.bare!].filter(isUp)).toEqual([]);
});

test("the group is ended when its leader is gone already", async () => {
  const leader = await startScript("env -i sleep 60 & echo bare=$!; echo ready");
  await until(() => readProcess(leader.pid) === null);
  await endProcesses({ group: leader, marks: newMarks().marks, graceMs: 5000, clock });
  expect(isUp(leader.pids.bare!)).toBe(false);
});

test("each process gets SIGTERM once and its time to end", async () => {
  const file = join(tempFolder(), "signals");
  const { marks, env } = newMarks();
  const child = await startScript(
    `trap 'echo term >> ${file}' TERM; echo ready; while ! [ -s ${file} ]; do sleep 0.02; done; sleep 0.5; echo end >> ${file}`,
    { env },
  );
  await endProcesses({ group: child, marks, graceMs: 20_000, clock });
  expect(readFileSync(file, "utf8")).toBe("term\nend\n");
});

test("what tidies up after SIGTERM may use commands for it", async () => {
  const file = join(tempFolder(), "signals");
  const { marks, env } = newMarks();
  const child = await startScript(`trap 'sleep 0.6; echo tidy > ${file}; exit' TERM; echo ready; sleep 60 & wait`, {
    env,
  });
  await endProcesses({ group: child, marks, graceMs: 20_000, clock });
  expect(readFileSync(file, "utf8")).toBe("tidy\n");
});

test("who waits for a child gets SIGTERM before it, although it forked while the processes were looked for", async () => {
  const [go, file] = [join(tempFolder(), "go"), join(tempFolder(), "signals")];
  execFileSync("mkfifo", [go]);
  const child = await startScript(
    `trap 'echo tidy > ${file}; exit' TERM; echo ready; read word < ${go}; sleep 60 & wait`,
  );
  const hasForked = () => listPids().some((pid) => readProcess(pid)?.ppid === child.pid);
  let looked = false;
  const isTheirs = (entry: ProcessEntry): boolean => {
    if (entry.pid === child.pid && !looked) {
      looked = true;
      writeFileSync(go, "\n");
      // Not awaited: the scan goes on when this returns, and it has listed the pids already.
      for (const before = clock.monotonicMs(); !hasForked() && clock.monotonicMs() - before < 10_000; );
    }
    return entry.session === child.pid;
  };
  const kill = vi.spyOn(process, "kill");
  onTestFinished(() => kill.mockRestore());
  expect(await endMatching(isTheirs, { graceMs: 20_000, clock })).toEqual({ ended: 2, survivors: [] });
  expect(kill.mock.calls[0]).toEqual([child.pid, "SIGTERM"]);
  expect(readFileSync(file, "utf8")).toBe("tidy\n");
});

test("a child that was forked too late for SIGTERM does not take up the grace", async () => {
  const { marks, env } = newMarks();
  const child = await startScript("trap 'sleep 60 & exit' TERM; echo ready; sleep 60 & wait", { env });
  const before = clock.monotonicMs();
  await endProcesses({ marks, graceMs: 20_000, clock });
  expect(clock.monotonicMs() - before).toBeLessThan(10_000);
  expect(isUp(child)).toBe(false);
  expect(findMarked(marks)).toEqual([]);
});

test("a child that took SIGTERM as its parent's copy gets it again as the program that it becomes", async () => {
  const file = join(tempFolder(), "go");
  const { marks, env } = newMarks();
  // Takes the signal in a handler that does nothing, then turns into something that would have heeded it.
  const child = await startScript(
    `trap 'echo > ${file}' TERM; echo ready; while ! [ -e ${file} ]; do :; done; exec sleep 60`,
    {
      env,
    },
  );
  const before = clock.monotonicMs();
  await endProcesses({ marks, graceMs: 20_000, clock });
  expect(clock.monotonicMs() - before).toBeLessThan(10_000);
  expect(isUp(child)).toBe(false);
});

test("a stopped process is continued, so that it can end by itself", async () => {
  const file = join(tempFolder(), "signals");
  const { marks, env } = newMarks();
  const child = await startScript(`trap 'echo term > ${file}; exit' TERM; echo ready; kill -STOP $$; sleep 60`, {
    env,
  });
  await until(() => readProcess(child.pid)?.state === "T");
  await endProcesses({ marks, graceMs: 20_000, clock });
  expect(readFileSync(file, "utf8")).toBe("term\n");
});

test("what ignores SIGTERM is killed after the grace, not before", async () => {
  const { marks, env } = newMarks();
  const child = await startScript(STUBBORN, { env });
  const before = clock.monotonicMs();
  const result = await endProcesses({ group: child, marks, graceMs: 300, clock });
  expect(clock.monotonicMs() - before).toBeGreaterThanOrEqual(300);
  expect(result.survivors).toEqual([]);
  expect(isUp(child)).toBe(false);
});

test("an abort cuts the grace short and ends everything all the same", async () => {
  const { marks, env } = newMarks();
  const child = await startScript(STUBBORN, { env });
  const abort = new AbortController();
  const ending = endProcesses({ group: child, marks, graceMs: 3_600_000, clock, signal: abort.signal });
  abort.abort();
  expect((await ending).survivors).toEqual([]);
  expect(isUp(child)).toBe(false);
});

test("a daemon that left the group is found by its environment", async () => {
  const { marks, env } = newMarks();
  const script = `(setsid sh -c 'echo daemon=$$; ${STUBBORN}' &) ; exit 0`;
  const starter = await startScript(script, { env });
  const daemon = starter.pids.daemon!;
  await until(() => readProcess(starter.pid) === null);
  expect(readProcess(daemon.pid)).not.toMatchObject({ session: starter.pid });
  expect(findMarked(marks)).toContainEqual(daemon);
  const result = await endProcesses({ group: starter, marks, graceMs: 50, clock });
  expect(result.survivors).toEqual([]);
  expect(isUp(daemon)).toBe(false);
});

test("a daemon without the environment is found by its working directory, also below and also removed", async () => {
  const folder = tempFolder();
  const { marks } = newMarks();
  const daemon = (dir: string, name: string) =>
    `mkdir -p ${dir}; cd ${dir}; setsid env -i sleep 60 & echo ${name}=$!; cd /`;
  const starter = await startScript(
    [
      daemon(`${folder}/ws`, "top"),
      daemon(`${folder}/ws/a b`, "below").replaceAll(`${folder}/ws/a b`, `'${folder}/ws/a b'`),
      daemon(`${folder}/ws-2`, "neighbour"),
      "echo ready; exit 0",
    ].join("\n"),
  );
  const { top, below, neighbour } = starter.pids as Record<string, { pid: number; started: number }>;
  rmSync(`${folder}/ws`, { recursive: true });
  const found = findMarked({ ...marks, folder: `${folder}/ws` });
  expect(found).toEqual(expect.arrayContaining([top, below]));
  await endProcesses({ marks: { ...marks, folder: `${folder}/ws` }, graceMs: 5000, clock });
  expect([top!, below!, neighbour!].map(isUp)).toEqual([false, false, true]);
});

test.each([
  ["another run of the instance", { ORCH_RUN_ID: "8" }],
  ["a run whose number begins alike", { ORCH_RUN_ID: "71" }],
  ["another instance", { ORCH_INSTANCE_ID: randomUUID() }],
  ["a name that ends alike", { ORCH_RUN_ID: "0", NOT_ORCH_RUN_ID: "7" }],
])("%s is left alone", async (_, other) => {
  const { marks, env } = newMarks(7);
  const child = await startScript("echo ready; sleep 60", { env: { ...env, ...other } });
  expect(findMarked(marks)).toEqual([]);
  expect(await endProcesses({ marks, graceMs: 50, clock })).toEqual({ ended: 0, survivors: [] });
  expect(isUp(child)).toBe(true);
});

test("a process that has got the leader's pid since is left alone", async () => {
  const { marks } = newMarks();
  const child = await startScript("sleep 60 & echo member=$!; echo ready; wait");
  const earlier = { pid: child.pid, started: child.started - 1 };
  expect(await endProcesses({ group: earlier, marks, graceMs: 50, clock })).toEqual({ ended: 0, survivors: [] });
  expect([child, child.pids.member!].map(isUp)).toEqual([true, true]);
});

test("a signal reaches that very process or none", async () => {
  const child = await startScript("trap 'exit 3' TERM; echo ready; sleep 60 & wait");
  signalProcess({ pid: child.pid, started: child.started - 1 }, "SIGKILL");
  expect(isUp(child)).toBe(true);
  signalProcess(child, "SIGTERM");
  const [code, signal] = await once(child.child, "exit");
  expect({ code, signal }).toEqual({ code: 3, signal: null });
  signalProcess(child, "SIGTERM");
});

test("a chain of processes that fork and leave does not get away", async () => {
  const { marks, env } = newMarks();
  const script = join(tempFolder(), "hop.sh");
  // Bounded, so that a failing test leaves nothing that runs for ever.
  writeFileSync(script, `trap "" TERM\n[ $1 -gt 4000 ] || setsid sh ${script} $(($1 + 1)) &\n`);
  await startScript(`sh ${script} 1; echo ready`, { env });
  expect((await endProcesses({ marks, graceMs: 100, clock })).survivors).toEqual([]);
  expect(findMarked(marks)).toEqual([]);
});

test("what keeps forking while it is ended is ended with its children", async () => {
  const { marks, env } = newMarks();
  const fork = `trap "" TERM; i=0; while [ $i -lt 500 ]; do setsid sleep 60 & sleep 0.002; i=$((i+1)); done; wait`;
  const child = await startScript(`(${fork}) & (${fork}) & echo ready; wait`, { env });
  await until(() => findMarked(marks).length > 10);
  const result = await endProcesses({ group: child, marks, graceMs: 100, clock });
  expect(result.survivors).toEqual([]);
  expect(findMarked(marks)).toEqual([]);
});

test("a zombie does not hold up the ending", async () => {
  const { marks, env } = newMarks();
  const zombie = await startZombie(env);
  expect(await endProcesses({ group: zombie, marks, graceMs: 60_000, clock })).toEqual({ ended: 0, survivors: [] });
  expect(readProcess(zombie.pid)?.state).toBe("Z");
});

test("a process with a blank and a parenthesis in its name is ended", async () => {
  const { marks, env } = newMarks();
  const program = join(tempFolder(), "x) Z (y z");
  copyFileSync("/bin/sh", program);
  const child = await startProgram([program, "-c", "echo ready; read forever < /dev/zero; :"], { env });
  await endProcesses({ marks, graceMs: 5000, clock });
  expect(isUp(child)).toBe(false);
});

test("this process, its ancestors and pid 1 are never found", async () => {
  const spared = protectedPids();
  for (const pid of [0, 1, process.pid, process.ppid]) expect(spared).toContain(pid);
  const found = [...findMatching(() => true)].map(({ pid }) => pid);
  expect(found.filter((pid) => spared.has(pid))).toEqual([]);

  const folder = tempFolder();
  const child = await startScript("echo ready; sleep 60", { cwd: folder });
  const home = process.cwd();
  process.chdir(folder);
  try {
    // Ends the child beside it, and would end this test.
    await endProcesses({ marks: { ...newMarks().marks, folder }, graceMs: 5000, clock });
  } finally {
    process.chdir(home);
  }
  expect(isUp(child)).toBe(false);
});

test.each([["/"], ["relative/folder"], ["/tmp/.."]])("the folder %s is refused", (folder) => {
  expect(() => findMarked({ instanceId: "x", folder })).toThrow(RangeError);
});

test("what may not be signalled is named as a survivor", async () => {
  // Only root can have a child that it may not signal: one of another user, while it acts as a third.
  const isRoot = process.geteuid!() === 0;
  const child = await startScript("echo ready; exec sleep 60", isRoot ? { uid: 65533 } : {});
  const fast = { now: clock.now, monotonicMs: () => clock.monotonicMs() * (isRoot ? 1000 : 1) };
  if (isRoot) process.seteuid!(65534);
  try {
    const result = await endProcesses({ group: child, marks: newMarks().marks, graceMs: 5000, clock: fast });
    expect(result).toEqual(isRoot ? { ended: 0, survivors: [child.pid] } : { ended: 1, survivors: [] });
  } finally {
    if (isRoot) process.seteuid!(0);
  }
});

test("leftovers: what the rows name by pid and start time, with its group, and what carries the instance", async () => {
  const { env } = newMarks();
  const known = await startScript("env -i sleep 60 & echo member=$!; echo ready; wait");
  const reused = await startScript("echo ready; sleep 60");
  const marked = await startScript(STUBBORN, { env });
  const spared = await startScript("echo ready; exec sleep 60", { env });
  const result = await killLeftovers({
    instanceId: env.ORCH_INSTANCE_ID,
    known: [known, { pid: reused.pid, started: reused.started - 1 }, { pid: 2 ** 30, started: 1 }],
    spare: ({ pid }) => pid === spared.pid,
  });
  expect(result.survivors).toEqual([]);
  expect([known, known.pids.member!, marked].map(isUp)).toEqual([false, false, false]);
  expect([reused, spared].map(({ pid, started }) => isAlive(pid, started))).toEqual([true, true]);
});
