import { closeSync, openSync, readdirSync, readFileSync, readlinkSync } from "node:fs";

/** One process as `/proc/PID/stat` shows it. */
export interface ProcessEntry {
  pid: number;
  ppid: number;
  pgid: number;
  session: number;
  /** One letter: `R`, `S`, `D`, `T`, `Z` … */
  state: string;
  threads: number;
  /** Field 22: clock ticks since boot. With the pid it names one process; the pid alone is used again. */
  started: number;
}

/** What names one process for good: a pid is reused, a pid with its start time is not. */
export interface ProcessId {
  pid: number;
  started: number;
}

/** What these files answer with when the process is gone, or went while being looked at. */
const GONE = new Set(["ENOENT", "ESRCH"]);
/** Another user's process: its environment and working directory are not ours to read. */
const FORBIDDEN = new Set(["EACCES", "EPERM"]);

const errorCode = (error: unknown): string => String((error as NodeJS.ErrnoException).code);

/** `read()`, or null where the process is gone or, with `orForbidden`, is not ours to look at. */
const unlessGone = <T>(read: () => T, orForbidden = false): T | null => {
  try {
    return read();
  } catch (error) {
    const code = errorCode(error);
    if (GONE.has(code) || (orForbidden && FORBIDDEN.has(code))) return null;
    throw error;
  }
};

/** Reads the text of a `/proc/PID/stat`; null if it is not one. A name may hold blanks, parentheses and newlines. */
export const parseStat = (text: string): ProcessEntry | null => {
  const open = text.indexOf(" (");
  const close = text.lastIndexOf(") ");
  if (open < 0 || close < open) return null;
  const fields = text.slice(close + 2).split(" ");
  const field = (number: number): number => Number(fields[number - 3]);
  const entry: ProcessEntry = {
    pid: Number(text.slice(0, open)),
    state: fields[0] ?? "",
    ppid: field(4),
    pgid: field(5),
    session: field(6),
    threads: field(20),
    started: field(22),
  };
  return Number.isSafeInteger(entry.pid) && Number.isSafeInteger(entry.started) ? entry : null;
};

/** The process with that pid, zombies included; null if there is none. */
export const readProcess = (pid: number): ProcessEntry | null => {
  const text = unlessGone(() => readFileSync(`/proc/${pid}/stat`, "latin1"));
  return text === null ? null : parseStat(text);
};

/**
 * A zombie is dead, however late its parent reaps it. One that still has threads is a process whose first thread has
 * ended while others run.
 */
export const isRunning = (entry: ProcessEntry): boolean =>
  entry.state !== "X" && (entry.state !== "Z" || entry.threads > 1);

/** Whether the very process that started then still runs: not a zombie, not another one that got its pid. */
export const isAlive = (pid: number, started: number): boolean => {
  const entry = readProcess(pid);
  return entry !== null && entry.started === started && isRunning(entry);
};

/** All pids, ascending. */
export const listPids = (): number[] =>
  readdirSync("/proc")
    .filter((name) => /^[0-9]+$/.test(name))
    .map(Number)
    .sort((a, b) => a - b);

/** The environment a process was started with, as bytes (`NAME=value` ended by NUL); null if gone or not ours to read. */
export const readEnvironBytes = (pid: number): Buffer | null =>
  unlessGone(() => readFileSync(`/proc/${pid}/environ`), true);

/** The same as a record; of a name that stands there twice the first counts, as it does for `getenv`. */
export const readEnviron = (pid: number): Record<string, string> | null => {
  const bytes = readEnvironBytes(pid);
  if (bytes === null) return null;
  const environ: Record<string, string> = Object.create(null);
  for (const entry of bytes.toString("utf8").split("\0")) {
    const equals = entry.indexOf("=");
    if (equals > 0) environ[entry.slice(0, equals)] ??= entry.slice(equals + 1);
  }
  return environ;
};

/**
 * The working directory, or where its path is too long to be told the nearest ancestor whose path is not; ends in ` (deleted)`
 * if it has been removed. Null if gone or not ours to read.
 */
export const readCwd = (pid: number): string | null => {
  const link = `/proc/${pid}/cwd`;
  return unlessGone(() => unlessTooLong(() => readlinkSync(link)) ?? nearestAncestor(link), true);
};

/** The program that a process runs; null if gone, not ours to read, or with a path too long to be told. */
export const readExe = (pid: number): string | null =>
  unlessGone(() => unlessTooLong(() => readlinkSync(`/proc/${pid}/exe`)), true);

/** The longest path that the kernel takes or tells, in bytes. A directory may lie deeper: `cd` goes there step by step. */
const LONGEST_PATH = 4095;

const unlessTooLong = <T>(read: () => T): T | null => {
  try {
    return read();
  } catch (error) {
    if (errorCode(error) === "ENAMETOOLONG") return null;
    throw error;
  }
};

const nearestAncestor = (link: string): string | null => {
  for (let above = `${link}/..`; above.length <= LONGEST_PATH; above += "/..") {
    const fd = openSync(above, "r");
    try {
      const path = unlessTooLong(() => readlinkSync(`/proc/self/fd/${fd}`));
      if (path !== null) return path;
    } finally {
      closeSync(fd);
    }
  }
  return null;
};

/** The words of the command that a process was started with; null if gone or not ours to read. */
export const readCommandLine = (pid: number): string[] | null => {
  const bytes = unlessGone(() => readFileSync(`/proc/${pid}/cmdline`), true);
  return bytes === null ? null : bytes.toString("utf8").split("\0").slice(0, -1);
};
