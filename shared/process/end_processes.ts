import type { Clock } from "../clock.ts";
import { findMatching, groupMatcher, type Marks, type Matcher, marksMatcher, protectedPids } from "./find_processes.ts";
import { isAlive, isRunning, type ProcessId, readExe, readProcess } from "./proc_table.ts";

export type { Marks } from "./find_processes.ts";
export { findMarked } from "./find_processes.ts";

/** How long a process that was sent SIGKILL may take to be gone before it counts as a survivor. */
const KILL_WAIT_MS = 10_000;
/** Between two looks at the processes already known. */
const POLL_MS = { first: 4, longest: 50 };
/** So many scans in a row must find nothing: a process in the middle of an exec shows an empty environment to one of them. */
const CLEAN_SCANS = 2;

export interface EndOptions {
  /** The leader of the process group: a child that was started `detached`, which makes it leader of a session as well. */
  group?: ProcessId;
  marks: Marks;
  /** Milliseconds between SIGTERM and SIGKILL; 0 sends SIGKILL at once. */
  graceMs: number;
  clock: Clock;
  /** Cuts the grace short; SIGKILL and the wait for the end still follow. */
  signal?: AbortSignal;
}

export interface EndResult {
  /** How many processes were found and are gone. */
  ended: number;
  /** Pids that are still there: not ours to signal, or stuck in the kernel. */
  survivors: number[];
}

/** `exe`: the program that it ran when it was last signalled. */
type Seen = Map<string, ProcessId & { exe: string | null }>;

const pause = (ms: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done);
    if (signal?.aborted) done();
  });

/** A signal to a pid or, negative, to a group. Gone already is fine; one that is not ours to signal shows as a survivor. */
const kill = (pid: number, name: NodeJS.Signals): void => {
  try {
    process.kill(pid, name);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code !== "ESRCH" && code !== "EPERM") throw error;
  }
};

/** Signals that very process: its start time is compared right before, since its pid may be another's by now. */
export const signalProcess = ({ pid, started }: ProcessId, name: NodeJS.Signals): void => {
  const entry = readProcess(pid);
  if (entry === null || entry.started !== started || !isRunning(entry)) return;
  kill(pid, name);
  // One that was stopped would keep the signal waiting until somebody continues it.
  if (name === "SIGTERM" && entry.state.toUpperCase() === "T") kill(pid, "SIGCONT");
};

/**
 * The oldest first, by more than the pid: what was forked while the scan ran is found last, and pids begin anew. Of two that
 * began in the same tick of the kernel's clock the smaller pid is the older, as a rule.
 */
const byAge = (one: ProcessId, other: ProcessId): number => one.started - other.started || one.pid - other.pid;

/** Signals what `matches` finds and `seen` does not hold yet (SIGKILL: all of it); true if something new was found. */
const sweep = (matches: Matcher, name: "SIGTERM" | "SIGKILL", seen: Seen): boolean => {
  let news = false;
  const newestFirst = findMatching(matches);
  // SIGTERM to the oldest first: whoever waits for a child is to know why it went. SIGKILL to the newest first and as soon as
  // it is found: what is forking has the least time to get away.
  for (const { pid, started } of name === "SIGTERM" ? [...newestFirst].sort(byAge) : newestFirst) {
    const key = `${pid}:${started}`;
    const isNew = !seen.has(key);
    if (isNew) seen.set(key, { pid, started, exe: readExe(pid) });
    if (isNew || name === "SIGKILL") signalProcess({ pid, started }, name);
    news ||= isNew;
  }
  return news;
};

const alive = (seen: Seen) => [...seen.values()].filter(({ pid, started }) => isAlive(pid, started));

/**
 * SIGTERM again to those that run another program by now: what was between its fork and its exec took the signal as the
 * copy of its parent that it was, whose handler did nothing for it.
 */
const remindChanged = (seen: Seen): void => {
  for (const known of alive(seen)) {
    const exe = readExe(known.pid);
    if (exe === null || exe === known.exe) continue;
    known.exe = exe;
    signalProcess(known, "SIGTERM");
  }
};

/**
 * SIGTERM to each process once, then up to `graceMs` for them to end; true if all are gone. What appears meanwhile is left in
 * peace until those are gone: it may be the command with which one of them tidies up.
 */
const endGently = async (matches: Matcher, seen: Seen, options: Omit<EndOptions, "marks">): Promise<boolean> => {
  const { graceMs, clock, signal } = options;
  const deadline = clock.monotonicMs() + graceMs;
  let wait = POLL_MS.first;
  let clean = 0;
  for (;;) {
    const quiet = alive(seen).length === 0;
    if (quiet) {
      clean = sweep(matches, "SIGTERM", seen) ? 0 : clean + 1;
      if (clean === CLEAN_SCANS) return true;
    }
    remindChanged(seen);
    const left = deadline - clock.monotonicMs();
    if (left <= 0 || signal?.aborted) return false;
    await pause(Math.min(quiet ? POLL_MS.first : wait, left), signal);
    wait = Math.min(wait * 2, POLL_MS.longest);
  }
};

/** SIGKILL until nothing is found any more and all that was seen is gone, for at most `KILL_WAIT_MS`. */
const endHard = async (matches: Matcher, seen: Seen, group: ProcessId | undefined, clock: Clock): Promise<void> => {
  const deadline = clock.monotonicMs() + KILL_WAIT_MS;
  let wait = POLL_MS.first;
  let clean = 0;
  for (;;) {
    if (group !== undefined) killGroup(group);
    const news = sweep(matches, "SIGKILL", seen);
    const quiet = !news && alive(seen).length === 0;
    clean = quiet ? clean + 1 : 0;
    if (clean === CLEAN_SCANS || clock.monotonicMs() >= deadline) return;
    await pause(quiet ? POLL_MS.first : wait);
    wait = Math.min(wait * 2, POLL_MS.longest);
  }
};

/** One signal to the whole group, which no fork inside it can escape. Only where no process of ours is in it. */
const killGroup = (group: ProcessId): void => {
  const spared = protectedPids();
  const isMember = groupMatcher(group);
  const members = [...findMatching(isMember, new Set())].filter((entry) => entry.pgid === group.pid);
  if (members.length > 0 && !members.some(({ pid }) => spared.has(pid))) kill(-group.pid, "SIGKILL");
};

/** The same as `endProcesses` for whatever `matches` finds. */
export const endMatching = async (matches: Matcher, options: Omit<EndOptions, "marks">): Promise<EndResult> => {
  const seen: Seen = new Map();
  const gone = options.graceMs > 0 && (await endGently(matches, seen, options));
  if (!gone) await endHard(matches, seen, options.group, options.clock);
  const survivors = alive(seen).map(({ pid }) => pid);
  return { ended: seen.size - survivors.length, survivors };
};

/**
 * Ends a run's processes: the group, and whatever left it but carries the marks. SIGTERM, up to `graceMs` for them to
 * end, SIGKILL, and the wait until all are seen gone; looks again until none is found, so that what was being forked
 * meanwhile is ended too. Never signals this process, its ancestors or pid 1.
 */
export const endProcesses = async ({ marks, ...options }: EndOptions): Promise<EndResult> => {
  const isMarked = marksMatcher(marks);
  const isMember = options.group === undefined ? () => false : groupMatcher(options.group);
  return endMatching((entry) => isMember(entry) || isMarked(entry), options);
};
