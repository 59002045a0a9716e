import { type ChildProcess, type StdioOptions, spawn } from "node:child_process";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { Tail } from "../tail.ts";
import { ToolError } from "../tool_error.ts";
import { type EndGroupOptions, endGroup } from "./end_group.ts";

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
  /** Pids of its group that would not end, and are waited for no longer. */
  survivors: number[];
}

const STDERR_BYTES = 32 * 1024;
/** How long a finished command's error stream, held open by something it left behind, may stay silent. */
const QUIET_MS = 200;

/**
 * Runs a program as the leader of its own process group and answers when it has ended. On timeout, abort or too much
 * output the whole group is ended, and the answer comes when all of it is gone, or has been found not to go.
 */
export const supervise = async (
  program: string,
  args: readonly string[],
  o: Supervised,
  ending: EndGroupOptions = {},
): Promise<Ended> => {
  const child = await start(program, args, o);
  const stdout: Buffer[] = [];
  const stderr = new Tail(STDERR_BYTES);

  let why: "timedOut" | "aborted" | "overflowed" | null = null;
  let stop = (_: NonNullable<typeof why>): void => {};
  const stopped = new Promise<number[]>((resolve) => {
    stop = (reason) => {
      if (why !== null) return;
      why = reason;
      resolve(endGroup(child.pid!, ending));
    };
  });
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
  child.stderr?.on("data", (chunk: Buffer) => stderr.append(chunk));
  // It may end without having read all of its input, which is its own affair: the exit code tells.
  child.stdin?.on("error", () => undefined);
  child.stdin?.end(o.input);

  let code: number | null = null;
  let survivors: number[] = [];
  const finished = exitOf(child).then(async (exit) => {
    code = exit;
    await drained(child, () => why !== null);
  });
  try {
    // The exit of one that is stuck in the kernel may never come. After an ordinary end there may be something left to read.
    await Promise.race([finished, stopped.then(() => sleep(QUIET_MS))]);
    if (why !== null) survivors = await stopped;
  } finally {
    clearTimeout(timer);
    o.signal?.removeEventListener("abort", onAbort);
    letGo(child);
  }
  return {
    ...{ code, stdout: Buffer.concat(stdout), stderr: stderr.text(), survivors },
    ...{ timedOut: why === "timedOut", aborted: why === "aborted", overflowed: why === "overflowed" },
  };
};

/** Reads nothing more, and lets this process end whatever becomes of the other. */
const letGo = (child: ChildProcess): void => {
  for (const stream of [child.stdin, child.stdout, child.stderr]) stream?.destroy();
  child.unref();
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
    if (heard === before && (!stdoutOpen || stopped())) return;
  }
};

const closing = (stream: Readable | null): Promise<void> =>
  stream === null || stream.closed
    ? Promise.resolve()
    : new Promise((resolve) => stream.once("close", () => resolve()));
