import { type ChildProcess, spawn } from "node:child_process";
import { closeSync } from "node:fs";
import type { Readable } from "node:stream";
import type { Clock } from "@orchestrator/shared/clock.ts";
import { openChildOutput } from "@orchestrator/shared/process/child_output.ts";
import { endProcesses } from "@orchestrator/shared/process/end_processes.ts";
import { readProcess } from "@orchestrator/shared/process/proc_table.ts";
import { Tail } from "@orchestrator/shared/tail.ts";
import { findCommand } from "./command.ts";
import { openNameless } from "./nameless_file.ts";
import { spawnError } from "./spawn_error.ts";

export interface BoundedRun {
  /** Program and arguments, without a shell. */
  argv: readonly [string, ...string[]];
  cwd: string;
  /** The whole environment. */
  env: Readonly<Record<string, string>>;
  /** Read by the program on its standard input; absent: there is nothing to read. */
  input?: string;
  /** Where its input and its output have a name for a moment. */
  tempFolder: string;
  /** How long it may run, in ms. */
  timeoutMs: number;
  /** From SIGTERM to SIGKILL, in ms. */
  graceMs: number;
  clock: Clock;
  /** Ends it early. */
  signal: AbortSignal;
}

export interface BoundedResult {
  /** Exit code or signal, where the program ended by itself. */
  ending: { kind: "exited"; code: number } | { kind: "signalled"; signal: string } | { kind: "timed_out" | "aborted" };
  /** The end of what it wrote to both outputs, as text. */
  output: string;
}

/** So much of the output is kept; the end, since that is where programs say why they gave up. */
const KEPT_BYTES = 16 * 1024;

/** How long the output is waited for once everything has ended, in ms. */
const OUTPUT_MS = 1000;

/**
 * Runs a program to its end, in a process group of its own that is ended with it: whatever it started and left there does not
 * outlive it, whichever way it ends.
 * @throws {ToolError} where it cannot be started.
 */
export const runBounded = async (options: BoundedRun): Promise<BoundedResult> => {
  const { argv, cwd, env, input, tempFolder, timeoutMs, graceMs, clock, signal } = options;
  const file = await findCommand(argv[0], cwd, env.PATH);
  const output = await openChildOutput(tempFolder);
  let child: ChildProcess;
  try {
    const stdin = input === undefined ? null : await openNameless(tempFolder, input);
    try {
      const stdio = [stdin ?? "ignore", output.stdio, output.stdio] as const;
      child = spawn(file, argv.slice(1), { argv0: argv[0], cwd, env, detached: true, stdio: [...stdio] });
    } finally {
      if (stdin !== null) closeSync(stdin);
    }
    // Without a pid nothing was started, and the reason follows as an event.
    if (child.pid === undefined) throw await new Promise((resolve) => child.once("error", resolve));
  } catch (error) {
    output.abandon();
    throw spawnError(file, error);
  }
  const group = { pid: child.pid, started: readProcess(child.pid)?.started ?? 0 };
  const reading = readEnd(output.streams(child));
  const exited = new Promise<BoundedResult["ending"]>((resolve) => {
    child.once("exit", (code, name) =>
      resolve(name === null ? { kind: "exited", code: code ?? 0 } : { kind: "signalled", signal: name }),
    );
  });
  const ending = await firstOf(exited, timeoutMs, signal);
  await endProcesses({ group, marks: {}, graceMs, clock });
  return { ending, output: await reading.text() };
};

const firstOf = async (
  exited: Promise<BoundedResult["ending"]>,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<BoundedResult["ending"]> => {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let onAbort = (): void => {};
  try {
    return await Promise.race([
      exited,
      new Promise<BoundedResult["ending"]>((resolve) => {
        timer = setTimeout(() => resolve({ kind: "timed_out" }), timeoutMs);
        onAbort = () => resolve({ kind: "aborted" });
        signal.addEventListener("abort", onAbort);
        if (signal.aborted) onAbort();
      }),
    ]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort);
  }
};

/** Reads on for as long as anybody writes, and keeps the end. */
const readEnd = (streams: readonly Readable[]): { text(): Promise<string> } => {
  const end = new Tail(KEPT_BYTES);
  const closed = streams.map(
    (stream) =>
      new Promise<void>((resolve) => {
        stream.on("data", (chunk: Uint8Array) => end.append(chunk));
        // What cannot be read any more is over.
        stream.on("error", () => stream.destroy());
        stream.once("close", () => resolve());
      }),
  );
  return {
    text: async () => {
      const timer = setTimeout(() => {
        for (const stream of streams) stream.destroy();
      }, OUTPUT_MS);
      await Promise.all(closed);
      clearTimeout(timer);
      return end.text();
    },
  };
};
