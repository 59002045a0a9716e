import { type ChildProcess, spawn } from "node:child_process";
import { stat } from "node:fs/promises";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { openChildOutput } from "@orchestrator/shared/process/child_output.ts";
import { findExecutable } from "@orchestrator/shared/process/find_executable.ts";
import { markFirstToGo } from "@orchestrator/shared/process/first_to_go.ts";
import { type ProcessId, readProcess } from "@orchestrator/shared/process/proc_table.ts";
import type { Command } from "./plan.ts";
import { programKind } from "./program_kind.ts";
import type { StepEnding } from "./verdict.ts";

const SHELL = "/bin/sh";

/**
 * Both outputs into one, so that they stay in the order in which they were written, on every runtime. The shell replaces
 * itself: the process is the program's own.
 */
const JOIN_OUTPUTS = 'exec "$@" 2>&1';

/** After the exit, where a child still holds the output: how long it must be silent, and how often that is tried. */
const QUIET_MS = 50;
const MAX_LOOKS = 20;

/** A step's program while it runs, and what it left while that runs on. */
export interface RunningCommand {
  /** Leader of its own process group and session. */
  leader: ProcessId;
  /** How the program itself ended; what it left in the background may still run, and hold its output. */
  ended: Promise<StepEnding>;
  /** Resolves when what has been written is read: nobody holds the output any more, or it is silent. */
  outputSettled(): Promise<void>;
  /** From here on the output is read and thrown away; resolves when nobody holds it any more, or `graceMs` are over. */
  closeOutput(graceMs: number): Promise<void>;
}

export interface CommandOptions {
  command: Command;
  cwd: string;
  env: Readonly<Record<string, string>>;
  /** Where its output has a name for a moment. */
  tempFolder: string;
  /** Called with each piece of output, also after the program has ended. Must not throw. */
  onOutput: (chunk: Uint8Array) => void;
}

/** Starts a step's command in a process group of its own, without anything on standard input. */
export const startCommand = async (
  options: CommandOptions,
): Promise<{ kind: "running"; running: RunningCommand } | { kind: "ended"; ending: StepEnding }> => {
  const { command, cwd, env, tempFolder } = options;
  const program = programKind(command);
  const unusable = (name: string, problem: "not_found" | "not_executable") =>
    ({ kind: "ended", ending: { kind: "unusable", program, command: name, problem } }) as const;

  // A step may have removed it; the spawn would blame the program.
  if (!(await isFolder(cwd))) {
    return {
      kind: "ended",
      ending: { kind: "unusable", program: "own", command: "the checkout", problem: "not_found" },
    };
  }
  const argv: readonly string[] = command.kind === "shell" ? [SHELL, "-c", command.script] : command.argv;
  const found = await findExecutable(argv[0]!, cwd, env.PATH);
  if (found.kind !== "found") return unusable(argv[0]!, found.kind);

  const output = await openChildOutput(tempFolder);
  let child: ChildProcess;
  try {
    child = spawn(SHELL, ["-c", JOIN_OUTPUTS, "sh", found.file, ...argv.slice(1)], {
      cwd,
      env,
      detached: true,
      stdio: ["ignore", output.stdio, output.stdio],
    });
    if (child.pid === undefined) {
      throw await new Promise<Error>((resolve) => child.once("error", resolve));
    }
  } catch (error) {
    output.abandon();
    return { kind: "ended", ending: { kind: "not_spawned", message: (error as Error).message } };
  }
  markFirstToGo(child.pid);
  const leader = { pid: child.pid, started: readProcess(child.pid)?.started ?? 0 };
  const reading = new OutputReader(output.streams(child), options.onOutput);
  const ended = new Promise<StepEnding>((resolve) => {
    child.once("exit", (code, signal) => {
      if (code !== null && signal === null) resolve({ kind: "exited", program, code });
      else resolve({ kind: "signalled", signal: signal ?? "an unknown signal" });
    });
  });
  const outputSettled = () => reading.settled();
  return { kind: "running", running: { leader, ended, outputSettled, closeOutput: (ms) => reading.close(ms) } };
};

const isFolder = async (path: string): Promise<boolean> =>
  stat(path).then(
    (entry) => entry.isDirectory(),
    (error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT" || error.code === "ENOTDIR") return false;
      throw error;
    },
  );

/** Reads on for as long as anybody writes: what a step left in the background must not choke on a full pipe. */
class OutputReader {
  readonly #streams: readonly Readable[];
  readonly #closed: Promise<unknown>;
  #heard = 0;
  #listening = true;

  constructor(streams: readonly Readable[], onOutput: (chunk: Uint8Array) => void) {
    this.#streams = streams;
    this.#closed = Promise.all(
      streams.map(
        (stream) =>
          new Promise<void>((resolve) => {
            stream.on("data", (chunk: Uint8Array) => {
              this.#heard += 1;
              if (this.#listening) onOutput(chunk);
            });
            // What cannot be read any more is over; the process's own end is what is judged.
            stream.on("error", () => stream.destroy());
            stream.once("close", resolve);
          }),
      ),
    );
  }

  async settled(): Promise<void> {
    for (let looks = 0; looks < MAX_LOOKS; looks++) {
      const before = this.#heard;
      const closed = await Promise.race([this.#closed.then(() => true), sleep(QUIET_MS, false)]);
      if (closed || this.#heard === before) return;
    }
  }

  async close(graceMs: number): Promise<void> {
    this.#listening = false;
    const timer = setTimeout(() => {
      for (const stream of this.#streams) stream.destroy();
    }, graceMs);
    await this.#closed;
    clearTimeout(timer);
  }
}
