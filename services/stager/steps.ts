import type { Clock } from "@orchestrator/shared/clock.ts";
import { type EndResult, endMatching, endProcesses } from "@orchestrator/shared/process/end_processes.ts";
import { groupMatcher, type Marks, marksMatcher } from "@orchestrator/shared/process/find_processes.ts";
import { checkHttp } from "./http_check.ts";
import type { Placeholders } from "./placeholders.ts";
import type { PlanStep } from "./plan.ts";
import { type RunningCommand, startCommand } from "./run_command.ts";
import type { StepEnding } from "./verdict.ts";

/** Whoever still holds a step's output so long after the grace is not waited for, in ms. */
const HELD_OUTPUT_MS = 1000;

export interface StepLimit {
  ms: number;
  /** Whose limit it is: the step's own, or what is left of the whole run's. */
  of: "step" | "run";
  /** What the plan says, for the message. */
  statedMs: number;
}

export interface StepCall {
  step: PlanStep;
  limit: StepLimit;
  /** Ends the step; its reason is thrown. */
  signal: AbortSignal;
  onOutput: (chunk: Uint8Array) => void;
  /** An http check's attempts, one line each. */
  onAttempt: (line: string) => void;
}

export interface StepRunnerOptions {
  /** The checkout. */
  cwd: string;
  env: Readonly<Record<string, string>>;
  /** Where the output of a step has a name for a moment. */
  tempFolder: string;
  placeholders: Placeholders;
  /** What the run's processes carry wherever they went. */
  marks: Marks;
  killGraceMs: number;
  clock: Clock;
}

/** Runs the steps of one run, and ends all that they left behind. */
export class StepRunner {
  readonly #options: StepRunnerOptions;
  readonly #commands: RunningCommand[] = [];

  constructor(options: StepRunnerOptions) {
    this.#options = options;
  }

  /**
   * Runs one step to its end. What it leaves in the background lives on, for the steps after it; a step that is out of time
   * is ended with its process group.
   * @throws the signal's reason when it aborts; the step's group is ended then.
   */
  async run(call: StepCall): Promise<StepEnding> {
    call.signal.throwIfAborted();
    const { limit } = call;
    const timedOut: StepEnding = { kind: "timed_out", limit: limit.of, limitMs: limit.statedMs };
    if (limit.ms <= 0) return timedOut;
    const time = new AbortController();
    const timer = setTimeout(() => time.abort(), limit.ms);
    try {
      const ending =
        call.step.kind === "run" ? await this.#command(call, time.signal) : await this.#http(call, time.signal);
      call.signal.throwIfAborted();
      return ending ?? timedOut;
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * Ends everything that carries the run's marks or belongs to a step's group. What it has printed is read before; what it
   * prints while it is being ended depends on the moment, says nothing about the work, and is left out.
   */
  async endAll(): Promise<EndResult> {
    const { marks, killGraceMs, clock } = this.#options;
    await Promise.all(this.#commands.map((command) => command.outputSettled()));
    const outputClosed = this.#commands.map((command) => command.closeOutput(killGraceMs + HELD_OUTPUT_MS));
    const isMarked = marksMatcher(marks);
    const groups = this.#commands.map(({ leader }) => groupMatcher(leader));
    const result = await endMatching((entry) => isMarked(entry) || groups.some((isMember) => isMember(entry)), {
      graceMs: killGraceMs,
      clock,
    });
    await Promise.all(outputClosed);
    return result;
  }

  /** @returns null where it was out of time, or stopped. */
  async #command({ step, signal, onOutput }: StepCall, time: AbortSignal): Promise<StepEnding | null> {
    if (step.kind !== "run") throw new TypeError(`step ${step.name} is no command`);
    const { cwd, env, tempFolder, killGraceMs, clock } = this.#options;
    const started = await startCommand({ command: step.command, cwd, env, tempFolder, onOutput });
    if (started.kind === "ended") return started.ending;
    const { running } = started;
    this.#commands.push(running);
    const ending = await Promise.race([running.ended, aborted(AbortSignal.any([signal, time]))]);
    if (ending !== null) {
      // The step is over in time, however long its output is waited for.
      await running.outputSettled();
      return ending;
    }
    await endProcesses({ group: running.leader, marks: {}, graceMs: killGraceMs, clock });
    return null;
  }

  /** @returns null where it was out of time, and nothing that it was answered says whose fault that is but the work's. */
  async #http({ step, signal, onOutput, onAttempt }: StepCall, time: AbortSignal): Promise<StepEnding | null> {
    if (step.kind !== "http") throw new TypeError(`step ${step.name} is no http check`);
    const { attempts } = step.http;
    const { kind, answer } = await checkHttp({
      check: step.http,
      placeholders: this.#options.placeholders,
      signal,
      limit: time,
      onAttempt: (attempt, { reason }) => onAttempt(`attempt ${attempt} of ${attempts}: ${reason}\n`),
    });
    if (answer === null) return null;
    // How many attempts it took depends on the moment; what was answered in the end does not.
    onOutput(Buffer.from(answer.kind === "right" ? `${answer.reason}\n` : (answer.excerpt ?? "")));
    return { kind: "answered", answer, attempts: kind === "answered" ? attempts : null };
  }
}

/** Resolves with null as soon as the signal has aborted. */
const aborted = (signal: AbortSignal): Promise<null> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve(null);
    else signal.addEventListener("abort", () => resolve(null), { once: true });
  });
