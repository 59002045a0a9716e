import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

export interface Leftover {
  pid: number;
  command: string;
}

/** `read()`, or null where the process has ended meanwhile or belongs to somebody else. */
const ofProcess = (read: () => string): string | null => {
  try {
    return read();
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? "";
    if (["ENOENT", "ESRCH", "EACCES", "EPERM"].includes(code)) return null;
    throw error;
  }
};

/**
 * All processes that carry the directory's path in their environment or arguments, or work inside it. It asks the kernel,
 * not the services: it is what tells whether they left anything. A zombie has neither and does not count.
 */
export const findLeftovers = (directory: string): Leftover[] => {
  const found: Leftover[] = [];
  for (const name of readdirSync("/proc")) {
    const pid = Number(name);
    if (!Number.isInteger(pid) || pid === process.pid) continue;
    const environment = ofProcess(() => readFileSync(`/proc/${pid}/environ`, "latin1"));
    const command = ofProcess(() => readFileSync(`/proc/${pid}/cmdline`, "latin1"));
    const cwd = ofProcess(() => readlinkSync(`/proc/${pid}/cwd`));
    if ([environment, command, cwd].some((text) => text?.includes(directory))) {
      found.push({ pid, command: (command ?? "").replaceAll("\0", " ").trim() });
    }
  }
  return found;
};

/** Kills whatever of the directory still runs until nothing is found; rejects when that takes longer than `withinMs`. */
export const killLeftovers = async (directory: string, withinMs: number): Promise<void> => {
  const deadline = performance.now() + withinMs;
  for (;;) {
    const left = findLeftovers(directory);
    if (left.length === 0) return;
    if (performance.now() > deadline) {
      throw new Error(`still running: ${left.map(({ pid, command }) => `${pid} ${command}`).join("; ")}`);
    }
    for (const { pid } of left) {
      try {
        process.kill(pid, "SIGKILL");
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
      }
    }
    await delay(50);
  }
};
