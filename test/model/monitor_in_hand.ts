import type { Claim } from "@orchestrator/shared/storage/claim_job.ts";
import { recordHead } from "@orchestrator/shared/storage/record_head.ts";
import { recordExited, recordStarted, recordStarting } from "@orchestrator/shared/storage/record_run_progress.ts";
import { ActiveRun, type Worker } from "../../services/scheduler/active_runs.ts";
import type { Finalizing } from "../../services/scheduler/finalizer.ts";
import { monitorRun } from "../../services/scheduler/monitor.ts";
import { holdOf, type RunContext } from "../../services/scheduler/run_context.ts";
import type { RunResult } from "../../services/scheduler/run_result.ts";
import type { RequeuedBy } from "../../services/scheduler/settle.ts";

/** What a settle waits at until the test lets it go on. */
const GATE = "settle.before";

/** A promise that is settled from outside, either way. */
class Turnstile<T> {
  resolve!: (value: T) => void;
  reject!: (error: Error) => void;
  readonly passed = new Promise<T>((resolve, reject) => {
    this.resolve = resolve;
    this.reject = reject;
  });
}

/**
 * The monitor as the scheduler has it, at work on a run whose agent, stager and git are played by the test: each step of the
 * work is taken when the test says so, and its settle waits to be let through.
 */
export class MonitorInHand {
  readonly run: ActiveRun;
  /** Resolves when the monitor has ended, whichever way. */
  readonly ended: Promise<void>;
  result: RunResult | null = null;
  isOver = false;
  readonly #context: RunContext;
  readonly #worked = new Turnstile<RunResult>();
  readonly #atGate = new Turnstile<void>();
  readonly #gate = new Turnstile<void>();
  #begin: (() => Finalizing) | undefined;
  #worker: Extract<Worker, { kind: "process" }> | undefined;
  #lastOutputMs = 0;

  /** Does what the dispatcher does with a claim. */
  constructor(context: RunContext, claim: Claim) {
    this.#context = context;
    this.run = new ActiveRun(claim, context.clock);
    context.activeRuns.add(this.run);
    const points = { reach: (name: string) => (name === GATE ? this.#stand() : Promise.resolve()) };
    // What is thrown at a gate nobody stands at is nobody's error.
    this.#gate.passed.catch(() => undefined);
    this.ended = monitorRun({ ...context, points }, this.run, (_context, _run, _log, beginFinalizing) => {
      this.#begin = beginFinalizing;
      return this.#worked.passed;
    });
    void this.ended.then(() => {
      this.isOver = true;
    });
  }

  /** By whom the job goes back into the queue, should it; as the monitor says it to the settle. */
  get by(): RequeuedBy | null {
    return this.run.endReason?.outcome === "interrupted" ? "shutdown" : null;
  }

  /** @param begin where the run begins, if that is not the task's head. */
  async findPlace(begin: string | null): Promise<void> {
    if (begin !== null) await this.#context.storage.write((tx) => recordHead(tx, holdOf(this.run), begin));
  }

  /** An agent is going to be started. */
  async beginStart(): Promise<void> {
    await this.#context.storage.write((tx) => recordStarting(tx, holdOf(this.run)));
  }

  /** @param own what the kernel says of a process that lives as long as the test. */
  async startAgent(own: { pid: number; started: number }): Promise<void> {
    this.output();
    this.#worker = { kind: "process", ...own, lastOutputMs: () => this.#lastOutputMs };
    this.run.executing(this.#worker);
    await this.#context.storage.write((tx) => recordStarted(tx, holdOf(this.run), own, {}));
  }

  async startStaging(): Promise<void> {
    await this.#context.storage.write((tx) => recordStarted(tx, holdOf(this.run), null, {}));
    this.run.executing({ kind: "stream" });
  }

  output(): void {
    this.#lastOutputMs = this.#context.clock.monotonicMs();
    this.run.sawOutput();
  }

  /** Its process is gone: a pid alone does not name a process, its start does. */
  vanish(): void {
    this.#worker!.started = 1;
  }

  /** @param exit null: the stager's stream has brought its result. */
  async exit(exit: { code: number | null; signal: string | null } | null): Promise<void> {
    this.#begin!();
    if (exit) await this.#context.storage.write((tx) => recordExited(tx, holdOf(this.run), exit));
  }

  hold(on: boolean): void {
    this.#begin!().onWait(on);
  }

  /** The work is done; resolves when the settle is about to be written. */
  async finish(result: RunResult): Promise<void> {
    this.result = result;
    this.#worked.resolve(result);
    await this.#atGate.passed;
  }

  /** What was under way is broken off, since the run is to end. */
  async breakOff(result: RunResult): Promise<void> {
    this.result = result;
    this.#worked.reject(this.run.signal.reason as Error);
    await this.#atGate.passed;
  }

  /** Lets the settle be written; resolves when the monitor has ended. */
  async settle(): Promise<void> {
    this.#gate.resolve();
    await this.ended;
  }

  /** The monitor meets errors that nobody foresaw, wherever it is, and in its settle. */
  async die(): Promise<void> {
    const error = new Error("an error that nobody foresaw");
    this.#gate.reject(error);
    this.#worked.reject(error);
    await this.ended;
  }

  async #stand(): Promise<void> {
    this.#atGate.resolve();
    await this.#gate.passed;
  }
}
