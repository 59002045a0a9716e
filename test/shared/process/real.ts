import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { signalProcess } from "@orchestrator/shared/process/end_processes.ts";
import {
  isAlive,
  listPids,
  type ProcessEntry,
  type ProcessId,
  readProcess,
} from "@orchestrator/shared/process/proc_table.ts";
import { afterEach } from "vitest";

/** What a script of a test told about itself before it wrote `ready`. */
export interface Started extends ProcessId {
  child: ChildProcess;
  /** By the names that the script wrote as `name=pid` lines. */
  pids: Record<string, ProcessId>;
}

export interface StartOptions {
  env?: Record<string, string>;
  cwd?: string;
  uid?: number;
}

const folders: string[] = [];
const children: ChildProcess[] = [];
const written: ProcessId[] = [];

const identify = (pid: number): ProcessId => {
  const entry = readProcess(pid);
  if (entry === null) throw new Error(`process ${pid} is gone before the test has begun`);
  return { pid, started: entry.started };
};

/** A temporary folder, links resolved, removed after the test. */
export const tempFolder = (): string => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "orchestrator-process-")));
  folders.push(folder);
  return folder;
};

/**
 * Runs `sh -c script` in a session of its own, with nothing but PATH and `env` in its environment, and waits for its line
 * `ready`. Lines `name=pid` before that name processes that the script started.
 */
export const startScript = (script: string, options: StartOptions = {}): Promise<Started> =>
  startProgram(["sh", "-c", script], options);

export const startProgram = async (
  argv: [string, ...string[]],
  { env = {}, cwd = "/", ...user }: StartOptions = {},
): Promise<Started> => {
  const child = spawn(argv[0], argv.slice(1), {
    detached: true,
    cwd,
    env: { PATH: "/usr/local/bin:/usr/bin:/bin", ...env },
    stdio: ["ignore", "pipe", "ignore"],
    ...user,
  });
  children.push(child);
  if (child.pid === undefined) throw new Error(`${argv[0]} did not start`);
  const self = identify(child.pid);
  written.push(self);
  const pids: Record<string, ProcessId> = {};
  for await (const line of createInterface({ input: child.stdout! })) {
    if (line === "ready") return { ...self, child, pids };
    const [name, pid] = line.split("=") as [string, string];
    pids[name] = identify(Number(pid));
    written.push(pids[name]!);
  }
  throw new Error(`the script ended before it was ready: ${argv.join(" ")}`);
};

/** A process that has ended and that its parent, without marks and alive, does not reap. */
export const startZombie = async (env: Record<string, string> = {}): Promise<ProcessId> => {
  const parent = await startScript("sh -c 'kill -STOP $$' & echo zombie=$!; echo ready; exec env -i sleep 60", { env });
  const zombie = parent.pids.zombie!;
  // A shell would reap it; what the shell turns into does not.
  await until(() => readFileSync(`/proc/${parent.pid}/comm`, "utf8") === "sleep\n");
  process.kill(zombie.pid, "SIGKILL");
  await until(() => readProcess(zombie.pid)?.state === "Z");
  return zombie;
};

export const isUp = ({ pid, started }: ProcessId): boolean => isAlive(pid, started);

/** Waits until `condition` holds; the test's own timeout is the limit. */
export const until = async (condition: () => boolean): Promise<void> => {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
};

/** What is in the session of one of them, or is one of them. */
const isTheirs = (entry: ProcessEntry): boolean =>
  written.some(({ pid, started }) => entry.session === pid || (entry.pid === pid && entry.started === started));

afterEach(() => {
  for (const entry of listPids().map(readProcess)) {
    // Some of those that have ended may be reaped between the two.
    if (entry !== null && isTheirs(entry)) signalProcess(entry, "SIGKILL");
  }
  written.splice(0);
  for (const child of children.splice(0)) child.stdout?.destroy();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});
