import { setTimeout as sleep } from "node:timers/promises";
import { isRunning, listPids, readProcess } from "../process/proc_table.ts";

export interface EndGroupOptions {
  /** From SIGTERM, at which git removes its lock files, to SIGKILL. Default 1 s. */
  graceMs?: number;
  /** How long what was sent SIGKILL is waited for. Default 5 s: longer than this it is stuck in the kernel. */
  goneMs?: number;
  /** Sends a signal to a whole group. Default: the kernel does. */
  signalGroup?: (pgid: number, name: NodeJS.Signals) => void;
}

const POLL_MS = 10;

/**
 * Ends a process group: SIGTERM, a short grace, SIGKILL. Resolves when none of it runs any more, or with the pids of those that
 * still do, which are not ours to signal or are stuck in the kernel: there SIGKILL waits for what they wait for.
 */
export const endGroup = async (
  pgid: number,
  { graceMs = 1000, goneMs = 5000, signalGroup = signal }: EndGroupOptions = {},
): Promise<number[]> => {
  signalGroup(pgid, "SIGTERM");
  if ((await stillRunning(pgid, graceMs)).length === 0) return [];
  signalGroup(pgid, "SIGKILL");
  return stillRunning(pgid, goneMs);
};

const signal = (pgid: number, name: NodeJS.Signals): void => {
  try {
    process.kill(-pgid, name);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "ESRCH" && code !== "EPERM") throw error;
  }
};

/** Answers as soon as none runs any more, else after `withinMs` with those that do. */
const stillRunning = async (pgid: number, withinMs: number): Promise<number[]> => {
  for (const deadline = performance.now() + withinMs; ; ) {
    const pids = runningIn(pgid);
    if (pids.length === 0 || performance.now() >= deadline) return pids;
    await sleep(POLL_MS);
  }
};

const runningIn = (pgid: number): number[] =>
  listPids().filter((pid) => {
    const entry = readProcess(pid);
    return entry !== null && entry.pgid === pgid && isRunning(entry);
  });
