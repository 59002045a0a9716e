import type { ChildProcess } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";

/** How long what was sent SIGKILL may take to be gone, and how often that is looked at, in ms. */
const GONE_MS = { longest: 10_000, poll: 5 };

/**
 * Ends the group of a child that was started `detached` with SIGKILL, and resolves when the child has exited and the others are
 * gone, or stuck in the kernel. Without a look at `/proc`: for that there may be no descriptor.
 */
export const killGroup = async (leader: ChildProcess, pid: number): Promise<void> => {
  const exited = new Promise((resolve) => leader.once("exit", resolve));
  const deadline = performance.now() + GONE_MS.longest;
  while (kill(pid) && performance.now() < deadline) await sleep(GONE_MS.poll);
  await exited;
};

/** @returns whether the group has a process of ours yet, be it one that is dead and waits to be reaped. */
const kill = (pgid: number): boolean => {
  try {
    return process.kill(-pgid, "SIGKILL");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ESRCH" || code === "EPERM") return false;
    throw error;
  }
};
