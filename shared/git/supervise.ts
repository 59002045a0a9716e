import { type ChildProcess, type StdioOptions, spawn } from "node:child_process";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { isRunning, listPids, readProcess } from "../process/proc_table.ts";
import { ToolError } from "../tool_error.ts";

export interface Supervised {
  env: Record<string, string>;
  cwd: string;
  stdio: StdioOptions;
  input: string | Uint8Array | undefined;
  timeoutMs: number;
  signal: AbortSignal | undefined;
  maxOutputBytes: number;
}

export interface Ended {
  /** Null where a signal ended it. */
  code: number | null;
  stdout: Buffer;
  /** The last 32 KiB, as text. */
  stderr: string;
  timedOut: boolean;
  aborted: boolean;
  /** It wrote more than `maxOutputBytes` and was ended for it. */
  overflowed: boolean;
}

const STDERR_BYTES = 32 * 1024;
/** From SIGTERM, at which git removes its lock files, to SIGKILL. */
const TERM_GRACE_MS = 1000;
/** How long what was sent SIGKILL is waited for; longer than this it is stuck in the kernel. */
const GONE_MS = 5000;
const POLL_MS = 10;
/** How long a finished command's error stream, held open by something it left behind, may stay silent. */
const QUIET_MS = 200;

/**
 * Runs a program as the leader of its own process group and answers when it has ended. On timeout, abort or too much
 * output the whole group is ended, and the answer comes only when all of it is gone.
 */
export const supervise = async (program: string, args: readonly string[], o: Supervised): Promise<Ended> => {
  const child = await start(program, args, o);
  const pid = child.pid!;
  const stdout: Buffer[] = [];
  const stderr = tail(STDERR_BYTES);
  const ended: Ended = {
    code: null,
    stdout: Buffer.alloc(0),
    stderr: "",
    timedOut: false,
    aborted: false,
    overflowed: false,
  };

  let stopping: Promise<void> | undefined;
  const stop = (why: "timedOut" | "aborted" | "overflowed"): void => {
    if (stopping !== undefined) return;
    ended[why] = true;
    stopping = endGroup(pid);
  };
  const onAbort = (): void => stop("aborted");
  const timer = setTimeout(() => stop("timedOut"), o.timeoutMs);
  o.signal?.addEventListener("abort", onAbort);
  if (o.signal?.aborted) onAbort();

  let bytes = 0;
  child.stdout?.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > o.maxOutputBytes) stop("overflowed");
    else stdout.push(chunk);
  });
  child.stderr?.on("data", stderr.push);
  // It may end without having read all of its input, which is its own affair: the exit code tells.
  child.stdin?.on("error", () => undefined);
  child.stdin?.end(o.input);

  ended.code = await exitOf(child);
  await drained(child, () => stopping !== undefined);
  clearTimeout(timer);
  o.signal?.removeEventListener("abort", onAbort);
  await stopping;
  ended.stdout = Buffer.concat(stdout);
  ended.stderr = stderr.text();
  return ended;
};

const start = async (program: string, args: readonly string[], o: Supervised): Promise<ChildProcess> => {
  let error: NodeJS.ErrnoException;
  try {
    const child = spawn(program, args, { cwd: o.cwd, env: o.env, stdio: o.stdio, detached: true });
    if (child.pid !== undefined) return child;
    error = await new Promise<NodeJS.ErrnoException>((resolve) => child.once("error", resolve));
  } catch (thrown) {
    // Which errors of a start are events and which are thrown differs between the runtimes, and from error to error.
    error = thrown as NodeJS.ErrnoException;
  }
  // ENOTDIR: an entry of PATH, or the directory, is below a file.
  if (error.code === "ENOENT" || error.code === "ENOTDIR") {
    throw new ToolError(
      "command_not_found",
      `${program} could not be started: not found in PATH (${o.env.PATH ?? "not set"}), or its directory ${o.cwd} is missing`,
      { cause: error },
    );
  }
  if (error.code === "EACCES") {
    throw new ToolError("command_not_executable", `${program} could not be started: not executable`, { cause: error });
  }
  throw new ToolError("git", `${program} could not be started: ${error.message}`, { cause: error });
};

const exitOf = (child: ChildProcess): Promise<number | null> =>
  new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) resolve(child.exitCode);
    else child.once("exit", (code) => resolve(code));
  });

/**
 * Resolves when all output has been read. Something that the program started and left behind may hold the error stream
 * open for ever (an ssh control master does): once the program has ended it is waited for only while it still speaks.
 */
const drained = async (child: ChildProcess, stopped: () => boolean): Promise<void> => {
  let heard = 0;
  const hear = (): void => {
    heard += 1;
  };
  child.stderr?.on("data", hear);
  const closed = Promise.all([closing(child.stdout), closing(child.stderr)]).then(() => true);
  for (;;) {
    const before = heard;
    if (await Promise.race([closed, sleep(QUIET_MS, false)])) return;
    // A busy event loop runs late timers before it reads: what is already there is read first.
    await new Promise((resolve) => setImmediate(resolve));
    const stdoutOpen = child.stdout !== null && !child.stdout.readableEnded && !child.stdout.destroyed;
    if (heard === before && (!stdoutOpen || stopped())) break;
  }
  child.stdout?.destroy();
  child.stderr?.destroy();
};

const closing = (stream: Readable | null): Promise<void> =>
  stream === null || stream.closed
    ? Promise.resolve()
    : new Promise((resolve) => stream.once("close", () => resolve()));

/** Ends a process group: SIGTERM, a short grace, SIGKILL; resolves when none of it runs any more. */
const endGroup = async (pgid: number): Promise<void> => {
  signalGroup(pgid, "SIGTERM");
  if (await groupGone(pgid, TERM_GRACE_MS)) return;
  signalGroup(pgid, "SIGKILL");
  await groupGone(pgid, GONE_MS);
};

const signalGroup = (pgid: number, name: NodeJS.Signals): void => {
  try {
    process.kill(-pgid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
};

const groupGone = async (pgid: number, withinMs: number): Promise<boolean> => {
  for (let left = withinMs; ; left -= POLL_MS) {
    if (!groupRuns(pgid)) return true;
    if (left <= 0) return false;
    await sleep(POLL_MS);
  }
};

const groupRuns = (pgid: number): boolean =>
  listPids().some((pid) => {
    const entry = readProcess(pid);
    return entry !== null && entry.pgid === pgid && isRunning(entry);
  });

/** Keeps the last `limit` bytes of what is pushed. */
const tail = (limit: number): { push: (chunk: Buffer) => void; text: () => string } => {
  let kept = Buffer.alloc(0);
  return {
    push: (chunk) => {
      kept = Buffer.concat([kept, chunk]);
      if (kept.length > limit * 2) kept = Buffer.from(kept.subarray(-limit));
    },
    text: () => kept.subarray(-limit).toString("utf8"),
  };
};
