import type { Clock } from "@orchestrator/shared/clock.ts";
import type { RunPhase } from "@orchestrator/shared/schemas/queue.ts";
import type { Claim } from "@orchestrator/shared/storage/claim_job.ts";
import { Survivors } from "./survivors.ts";

/** Why somebody ended a run that was under way; it decides the outcome. The first reason stands. */
export interface EndReason {
  outcome: "timed_out" | "stalled" | "cancelled" | "interrupted" | "tool_error";
  class: string | null;
  reason: string;
}

/** What is at the other end while a run executes: a process of this machine, or an open stream of the stager. */
export type Worker =
  /** `lastOutputMs`: when it was last heard of, on the monotonic clock; one that waits for a slow disk is not silent. */
  { kind: "process"; pid: number; started: number; lastOutputMs?: () => number } | { kind: "stream" };

/** A run that this process works on: launcher and monitor live exactly as long as it stands in `ActiveRuns`. */
export class ActiveRun {
  readonly claim: Claim;
  readonly #clock: Clock;
  readonly #end = new AbortController();
  readonly #beganMs: number;
  #phase: RunPhase = "launching";
  #phaseSinceMs: number;
  #lastOutputMs: number;
  #waitingSinceMs: number | null = null;
  #worker: Worker | null = null;
  #endReason: EndReason | null = null;
  #isOver = false;

  constructor(claim: Claim, clock: Clock) {
    this.claim = claim;
    this.#clock = clock;
    this.#beganMs = this.#phaseSinceMs = this.#lastOutputMs = clock.monotonicMs();
  }

  get phase(): RunPhase {
    return this.#phase;
  }

  get worker(): Worker | null {
    return this.#worker;
  }

  get endReason(): EndReason | null {
    return this.#endReason;
  }

  /** True once it has been settled, or given up: what is left is to close its log and to clear up after it. */
  get isOver(): boolean {
    return this.#isOver;
  }

  over(): void {
    this.#isOver = true;
  }

  /** Aborted when the run is to end. Launcher and monitor heed it; a finalizer does not: what has exited is finalized. */
  get signal(): AbortSignal {
    return this.#end.signal;
  }

  /** Milliseconds since the claim. */
  ageMs(): number {
    return this.#clock.monotonicMs() - this.#beganMs;
  }

  /** Milliseconds since the phase began; waiting for a lock does not count. */
  phaseAgeMs(): number {
    return (this.#waitingSinceMs ?? this.#clock.monotonicMs()) - this.#phaseSinceMs;
  }

  /** Milliseconds since there was output, or since execution began. */
  silentMs(): number {
    const ofProcessMs = this.#worker?.kind === "process" ? this.#worker.lastOutputMs?.() : undefined;
    return this.#clock.monotonicMs() - Math.max(ofProcessMs ?? this.#lastOutputMs, this.#phaseSinceMs);
  }

  /** Told when the run begins and when it ceases to wait for a lock. */
  waits(waiting: boolean): void {
    const nowMs = this.#clock.monotonicMs();
    if (waiting) this.#waitingSinceMs ??= nowMs;
    else if (this.#waitingSinceMs !== null) {
      this.#phaseSinceMs += nowMs - this.#waitingSinceMs;
      this.#waitingSinceMs = null;
    }
  }

  executing(worker: Worker): void {
    this.#worker = worker;
    this.#enter("executing");
  }

  finalizing(): void {
    this.#enter("finalizing");
  }

  sawOutput(): void {
    this.#lastOutputMs = this.#clock.monotonicMs();
  }

  /** Asks for the run's end. Without effect once it finalizes, or when its end was asked for before. */
  end(reason: EndReason): void {
    if (this.#phase === "finalizing" || this.#endReason !== null) return;
    this.#endReason = reason;
    this.#end.abort(new Error(reason.reason));
  }

  #enter(phase: RunPhase): void {
    this.#phase = phase;
    this.#phaseSinceMs = this.#clock.monotonicMs();
    this.#waitingSinceMs = null;
  }
}

/** The runs that this process works on, by job. A job has at most one. */
export class ActiveRuns {
  /** What runs that are over have left running. */
  readonly survivors = new Survivors();
  readonly #runs = new Map<number, ActiveRun>();
  #idle: (() => void)[] = [];

  add(run: ActiveRun): void {
    this.#runs.set(run.claim.job.id, run);
  }

  /** Takes out exactly this run; another run of the job that was begun since stays. */
  remove(run: ActiveRun): void {
    if (this.#runs.get(run.claim.job.id) === run) this.#runs.delete(run.claim.job.id);
    if (this.#runs.size > 0) return;
    for (const resolve of this.#idle.splice(0)) resolve();
  }

  get(jobId: number): ActiveRun | undefined {
    return this.#runs.get(jobId);
  }

  all(): ActiveRun[] {
    return [...this.#runs.values()];
  }

  /** Resolves when no run is left. */
  whenIdle(): Promise<void> {
    if (this.#runs.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }
}
