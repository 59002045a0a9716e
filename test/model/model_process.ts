import type { RunPhase } from "@orchestrator/shared/schemas/queue.ts";
import type { EndReason } from "../../services/scheduler/active_runs.ts";
import type { RunResult } from "../../services/scheduler/run_result.ts";
import type { FakeClock } from "../helpers/fake_clock.ts";
import { ModelFaults } from "./model_faults.ts";
import type { Exit } from "./step.ts";

/** Somebody who works a run to its settle. One that was reaped goes on until it finds itself fenced off. */
export interface ModelMonitor {
  runId: number;
  jobId: number;
  phase: RunPhase;
  phaseSinceMs: number;
  lastOutputMs: number;
  worker: "process" | "stream" | null;
  workerAlive: boolean;
  endReason: EndReason | null;
  exit: Exit | null;
  result: RunResult | null;
}

interface ModelMark {
  runId: number;
  sinceMs: number;
  heldMs: number;
  heldSinceMs: number | null;
}

const NO_COUNTS = {
  ...{ sweeps: 0, skippedLiveFinalizer: 0, finalizerExpired: 0, reapedRequeued: 0, reapedFailed: 0 },
  ...{ orphansKilled: 0, leakedMarks: 0, settleSuperseded: 0, errors: 0 },
};

/** What a scheduler has in memory and loses when it dies. */
export class ModelProcess {
  readonly #clock: FakeClock;
  readonly monitors = new Map<number, ModelMonitor>();
  /** By job: the run that is being worked on. */
  readonly active = new Map<number, number>();
  readonly marks = new Map<number, ModelMark>();
  /** The runs that it has claimed itself and has not seen end. */
  readonly claims = new Set<number>();
  readonly unownedSince = new Map<number, { runId: number; sinceMs: number }>();
  readonly counts = { ...NO_COUNTS };
  readonly faults: ModelFaults;
  deferred = 0;
  /** It was asked to stop, and claims nothing more. */
  stopping = false;

  constructor(clock: FakeClock) {
    this.#clock = clock;
    this.faults = new ModelFaults(clock);
  }

  claimed(runId: number, jobId: number): void {
    const nowMs = this.#clock.monotonicMs();
    this.active.set(jobId, runId);
    this.claims.add(runId);
    this.monitors.set(runId, {
      ...{ runId, jobId, phase: "launching", phaseSinceMs: nowMs, lastOutputMs: nowMs },
      ...{ worker: null, workerAlive: false, endReason: null, exit: null, result: null },
    });
  }

  /** The monitor that works the job as that run; none where it was reaped, or is gone. */
  owner(jobId: number, runId: number | null): ModelMonitor | undefined {
    return this.active.get(jobId) === runId ? this.monitors.get(runId!) : undefined;
  }

  enter(monitor: ModelMonitor, phase: RunPhase): void {
    monitor.phase = phase;
    monitor.phaseSinceMs = this.#clock.monotonicMs();
  }

  /** From here on the monitor finalizes, and says so. A later run of the same job keeps its mark. */
  beginFinalizing(monitor: ModelMonitor): void {
    if (monitor.phase === "finalizing") return;
    this.enter(monitor, "finalizing");
    const { jobId, runId } = monitor;
    if ((this.marks.get(jobId)?.runId ?? 0) > runId) return;
    this.marks.set(jobId, { runId, sinceMs: this.#clock.monotonicMs(), heldMs: 0, heldSinceMs: null });
  }

  markAgeMs({ sinceMs, heldMs, heldSinceMs }: ModelMark): number {
    return (heldSinceMs ?? this.#clock.monotonicMs()) - sinceMs - heldMs;
  }

  /** Only what executes or is being launched can be ended, and only once. */
  end(monitor: ModelMonitor, reason: EndReason): void {
    if (monitor.phase !== "finalizing") monitor.endReason ??= reason;
  }

  clearMark(jobId: number, runId: number): void {
    if (this.marks.get(jobId)?.runId === runId) this.marks.delete(jobId);
  }

  /** The run is no longer worked on by anybody who may settle it. */
  forget(jobId: number, runId: number): void {
    if (this.active.get(jobId) === runId) this.active.delete(jobId);
  }

  /** The monitor has ended, whichever way. */
  gone({ jobId, runId }: ModelMonitor): void {
    this.clearMark(jobId, runId);
    this.forget(jobId, runId);
    this.monitors.delete(runId);
  }
}
