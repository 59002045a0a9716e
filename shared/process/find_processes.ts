import { realpathSync } from "node:fs";
import { basename, dirname, isAbsolute, join } from "node:path";
import {
  isRunning,
  listPids,
  type ProcessEntry,
  type ProcessId,
  readCwd,
  readEnvironBytes,
  readProcess,
} from "./proc_table.ts";

/** What a run's processes carry wherever they went. */
export interface Marks {
  /** `ORCH_INSTANCE_ID` in the environment. Without it only `folder` counts. */
  instanceId?: string;
  /** `ORCH_RUN_ID` in the environment, in addition to the instance. */
  runId?: number;
  /** Absolute path; the working directory is there or below. */
  folder?: string;
}

/** Whether a process is one of those looked for. */
export type Matcher = (entry: ProcessEntry) => boolean;

/** Whether `NAME=value` stands in an environment as one whole entry. */
const hasEntry = (environ: Buffer, entry: string): boolean => {
  const wanted = Buffer.from(entry, "utf8");
  for (let at = environ.indexOf(wanted); at >= 0; at = environ.indexOf(wanted, at + 1)) {
    const end = at + wanted.length;
    if ((at === 0 || environ[at - 1] === 0) && (end === environ.length || environ[end] === 0)) return true;
  }
  return false;
};

/**
 * The folder as the kernel names it, links on the way resolved; it need not exist any more. A link in its own place is not
 * followed: a run may have put it there, and who works where it points to is nobody of the run's.
 */
const realFolder = (folder: string): string => {
  if (!isAbsolute(folder)) throw new RangeError(`the folder of a run must be an absolute path, not "${folder}"`);
  const real = join(resolveLinks(dirname(folder)), basename(folder));
  if (real === "/") throw new RangeError(`"${folder}" is the root directory, where every process is`);
  return real;
};

const resolveLinks = (path: string): string => {
  try {
    return realpathSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    return join(resolveLinks(dirname(path)), basename(path));
  }
};

const isInside = (cwd: string, folder: string): boolean =>
  cwd === folder || cwd === `${folder} (deleted)` || cwd.startsWith(`${folder}/`);

/** Finds processes by their marks. */
export const marksMatcher = ({ instanceId, runId, folder }: Marks): Matcher => {
  const entries: string[] = [];
  if (instanceId !== undefined) entries.push(`ORCH_INSTANCE_ID=${instanceId}`);
  if (runId !== undefined) entries.push(`ORCH_RUN_ID=${runId}`);
  const real = folder === undefined ? null : realFolder(folder);
  return ({ pid }) => {
    if (instanceId !== undefined) {
      const environ = readEnvironBytes(pid);
      if (environ !== null && entries.every((entry) => hasEntry(environ, entry))) return true;
    }
    const cwd = real === null ? null : readCwd(pid);
    return real !== null && cwd !== null && isInside(cwd, real);
  };
};

/**
 * Finds the session of a leader, and with it the leader's process group and any other in it. Where another process has the
 * leader's pid by now, nothing is its; where the leader is gone, its number cannot be given away while the session has
 * members, so these are still its own.
 * @param leader a child that was started `detached`, which makes it the leader of a group and of a session.
 */
export const groupMatcher = (leader: ProcessId): Matcher => {
  return (entry) => {
    if (entry.session !== leader.pid) return false;
    const now = entry.pid === leader.pid ? entry : readProcess(leader.pid);
    return now === null ? entry.started >= leader.started : now.started === leader.started;
  };
};

/** Never to be signalled: pid 1 and below, this process and its ancestors. */
export const protectedPids = (): Set<number> => {
  const pids = new Set([0, 1]);
  for (let pid = process.pid; pid > 1 && !pids.has(pid); pid = readProcess(pid)?.ppid ?? 0) pids.add(pid);
  return pids;
};

/** How often one scan looks for pids that appeared while it ran. */
const MAX_ROUNDS = 20;

/**
 * The running processes that match, newest pid first, each looked at only when it is asked for. What appeared meanwhile
 * is looked at as well, so that a chain of processes which fork and exit does not stay one step ahead of the scan.
 */
export function* findMatching(
  matches: Matcher,
  spared: ReadonlySet<number> = protectedPids(),
): Generator<ProcessEntry> {
  const looked = new Set<number>();
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const fresh = listPids().filter((pid) => !looked.has(pid));
    if (fresh.length === 0) return;
    for (const pid of fresh.reverse()) {
      looked.add(pid);
      if (spared.has(pid)) continue;
      const entry = readProcess(pid);
      if (entry !== null && isRunning(entry) && matches(entry)) yield entry;
    }
  }
}

/** The running processes that carry the marks, never this one or its ancestors. */
export const findMarked = (marks: Marks): ProcessId[] =>
  [...findMatching(marksMatcher(marks))].map(({ pid, started }) => ({ pid, started }));
