import { type ChildProcess, spawn } from "node:child_process";
import { closeSync } from "node:fs";
import { stat } from "node:fs/promises";
import type { Readable } from "node:stream";
import { clearTimeout, setTimeout } from "node:timers";
import type { Clock } from "@orchestrator/shared/clock.ts";
import { openChildOutput } from "@orchestrator/shared/process/child_output.ts";
import { type EndResult, endProcesses, type Marks } from "@orchestrator/shared/process/end_processes.ts";
import { readProcess } from "@orchestrator/shared/process/proc_table.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";
import { underKeeper, untilAgentRuns } from "./agent_keeper.ts";
import { findCommand, takesPromptAsArgument, withPrompt } from "./command.ts";
import { hasExitNote, refuseExitNote } from "./exit_notes.ts";
import { killGroup } from "./kill_group.ts";
import { openNameless } from "./nameless_file.ts";
import type { RunLog } from "./run_log.ts";
import { spawnError } from "./spawn_error.ts";

/** How long a process that the agent left may hold the output open after the agent's exit, and after `end()`. */
const HELD_OUTPUT_MS = { afterExit: 60_000, afterEnd: 1000 };

/**
 * How an agent's own process ended: one of the two is null. An exit code by which a shell tells a signal (128 + n, up to
 * SIGTERM) counts as that signal.
 */
export interface AgentExit {
  code: number | null;
  /** The signal's name, such as `SIGKILL`. */
  signal: string | null;
}

export interface AgentOptions {
  /** Program and arguments, without a shell; `{prompt}` in an argument is replaced by the prompt. */
  argv: readonly string[];
  /** Goes to standard input where no argument takes it. */
  prompt: string;
  /** The task's workspace. */
  cwd: string;
  /** The whole environment. Its `ORCH_INSTANCE_ID` and `ORCH_RUN_ID` are the marks by which `end()` finds what left the group. */
  env: Readonly<Record<string, string>>;
  /** Absolute path of the note, made already, that tells of an exit 0 whoever still lives to see it (`exit_notes.ts`). */
  exitNote: string;
  /** Where its prompt and its output have a name for a moment. */
  tempFolder: string;
  /** Takes both outputs. Where it falls behind, the agent waits when it writes. */
  log: RunLog;
  clock: Clock;
  /** Told of what went wrong about the agent's ending without keeping it from being ended. */
  onTrouble: (error: unknown, what: string) => void;
  /** Where it has aborted, nothing is started, and its reason is thrown. */
  signal?: AbortSignal;
}

export interface AgentProcess {
  /** Its keeper's, which leads its process group and session, and ends as it ends. */
  pid: number;
  /** With the pid it names this very process; 0 if it was gone before it could be looked at. */
  started: number;
  /** Resolves at the exit of the agent's own process, whoever still holds its output. */
  exited: Promise<AgentExit>;
  /** Calls `fn` in the very moment in which the exit is seen, or at once where that has been; `fn` must not throw. */
  onExit(fn: (exit: AgentExit) => void): void;
  /** When output was last seen (or the agent started), on the clock's monotonic time. */
  lastOutputMs(): number;
  /** Whether its exit 0 was noted before it was told to end. */
  isNoted(): Promise<boolean>;
  /**
   * Ends the agent and all that it left: SIGTERM, after `graceMs` SIGKILL, until all are seen gone. Then what they had written
   * is in the log's hands. Also to be called after an ordinary exit; calling it again does no harm.
   */
  end(graceMs: number, signal?: AbortSignal): Promise<EndResult>;
}

/**
 * Starts an agent in a process group of its own.
 * @throws {ToolError} `command_not_found`, `command_not_executable`, `prompt_too_large`, `workspace_missing`, `no_space`,
 * `temporary_folder` or `spawn_failed`; nothing is running then.
 */
export const startAgent = async (options: AgentOptions): Promise<AgentProcess> => {
  const { argv, cwd, env, prompt, tempFolder } = options;
  const [command = "", ...args] = argv;
  await checkFolder(cwd);
  const file = await findCommand(command, cwd, env.PATH);
  const filled = withPrompt(args, prompt);
  try {
    const stdin = takesPromptAsArgument(args) ? null : await openNameless(tempFolder, prompt);
    try {
      return await spawnAgent(file, filled, stdin, options);
    } finally {
      if (stdin !== null) closeSync(stdin);
    }
  } catch (error) {
    options.signal?.throwIfAborted();
    throw spawnError(file, error);
  }
};

const spawnAgent = async (
  file: string,
  args: string[],
  stdin: number | null,
  options: AgentOptions,
): Promise<RunningAgent> => {
  const { cwd, env, exitNote, tempFolder } = options;
  const keeper = underKeeper(exitNote, file, args);
  const output = await openChildOutput(tempFolder);
  let child: ChildProcess;
  try {
    options.signal?.throwIfAborted();
    child = spawn(keeper.program, keeper.args, {
      cwd,
      env,
      detached: true,
      stdio: [stdin ?? "ignore", output.stdio, output.stdio],
    });
    // Without a pid nothing was started, and the reason follows as an event.
    if (child.pid === undefined) throw await new Promise((resolve) => child.once("error", resolve));
  } catch (error) {
    output.abandon();
    throw error;
  }
  const { pid } = child;
  let streams: Readable[] = [];
  try {
    // Nothing is awaited between the start and this: an agent may be gone a moment later.
    streams = output.streams(child);
    return new RunningAgent(child, pid, streams, options);
  } catch (error) {
    // With no descriptor left, say. Whoever is told that nothing was started must find nothing running.
    await killGroup(child, pid);
    for (const stream of streams) stream.destroy();
    throw error;
  }
};

const checkFolder = async (cwd: string): Promise<void> => {
  const isFolder = await stat(cwd).then(
    (entry) => entry.isDirectory(),
    (error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT" || error.code === "ENOTDIR") return false;
      throw error;
    },
  );
  if (!isFolder)
    throw new ToolError(
      "workspace_missing",
      `the workspace ${cwd} is not a directory: it is made again for the next attempt`,
    );
};

class RunningAgent implements AgentProcess {
  readonly pid: number;
  readonly started: number;
  readonly exited: Promise<AgentExit>;
  readonly #options: AgentOptions;
  readonly #streams: readonly Readable[];
  readonly #outputEnded: Promise<unknown>;
  readonly #exitHandlers: ((exit: AgentExit) => void)[] = [];
  #exit: AgentExit | null = null;
  #lastOutputMs: number;
  #paused = 0;
  #isTold = false;
  /** An exit 0 must not count, whatever comes to stand in its note. */
  #isRefused = false;

  constructor(child: ChildProcess, pid: number, streams: readonly Readable[], options: AgentOptions) {
    this.pid = pid;
    this.started = readProcess(pid)?.started ?? 0;
    this.#options = options;
    this.#streams = streams;
    this.#lastOutputMs = options.clock.monotonicMs();
    child.on("error", (error) => options.log.append(`\n[orchestrator] the agent's process: ${error.message}\n`));
    // 'exit', not 'close': a process that the agent left in the background may hold the output open for ever.
    this.exited = new Promise((resolve) => {
      child.once("exit", (code, signal) => {
        const exit = { code: signal === null ? code : null, signal };
        this.#exit = exit;
        resolve(exit);
        this.#letGo(HELD_OUTPUT_MS.afterExit);
        for (const handler of this.#exitHandlers) handler(exit);
      });
    });
    this.#outputEnded = Promise.all(streams.map((stream) => this.#read(stream)));
  }

  onExit(fn: (exit: AgentExit) => void): void {
    if (this.#exit === null) this.#exitHandlers.push(fn);
    else fn(this.#exit);
  }

  lastOutputMs(): number {
    // An agent that is kept waiting by a slow disk is not silent.
    return this.#paused > 0 ? this.#options.clock.monotonicMs() : this.#lastOutputMs;
  }

  async isNoted(): Promise<boolean> {
    return !this.#isRefused && (await hasExitNote(this.#options.exitNote));
  }

  async end(graceMs: number, signal?: AbortSignal): Promise<EndResult> {
    const { clock } = this.#options;
    const group = { pid: this.pid, started: this.started };
    await untilAgentRuns(group, () => this.#exit !== null);
    this.#refuseNote();
    const result = await endProcesses({ group, marks: this.#marks(), graceMs, clock, ...(signal && { signal }) });
    if (!result.survivors.includes(this.pid)) await this.exited;
    this.#letGo(HELD_OUTPUT_MS.afterEnd);
    await this.#outputEnded;
    return result;
  }

  #refuseNote(): void {
    if (this.#isTold || this.#exit !== null) return;
    this.#isTold = true;
    const { exitNote, onTrouble } = this.#options;
    try {
      refuseExitNote(exitNote);
    } catch (error) {
      this.#isRefused = true;
      onTrouble(
        error,
        "it could not be written that an agent is told to end; an exit 0 after this counts as asked for",
      );
    }
  }

  #marks(): Marks {
    const { env, cwd } = this.#options;
    return {
      folder: cwd,
      ...(env.ORCH_INSTANCE_ID !== undefined && { instanceId: env.ORCH_INSTANCE_ID }),
      ...(env.ORCH_RUN_ID !== undefined && { runId: Number(env.ORCH_RUN_ID) }),
    };
  }

  /** Resolves when the stream has ended and all that it brought is in the log's hands. */
  #read(stream: Readable): Promise<void> {
    const { log, clock } = this.#options;
    stream.on("data", (chunk: Uint8Array) => {
      this.#lastOutputMs = clock.monotonicMs();
      if (log.append(chunk)) return;
      this.#paused += 1;
      stream.pause();
      log.drained().then(() => {
        this.#paused -= 1;
        stream.resume();
      });
    });
    stream.on("error", (error) =>
      log.append(`\n[orchestrator] the agent's output could not be read on: ${error.message}\n`),
    );
    return new Promise((resolve) => {
      stream.once("close", resolve);
    });
  }

  /** Reads no more after `ms`, where something that nobody could end still holds the output; a slow disk is waited for. */
  #letGo(ms: number): void {
    const timer = setTimeout(() => {
      if (this.#paused > 0) this.#letGo(ms);
      else for (const stream of this.#streams) stream.destroy();
    }, ms);
    timer.unref();
    this.#outputEnded.then(() => clearTimeout(timer));
  }
}
