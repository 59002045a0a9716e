/**
 * Who is finalizing what, right now. The live monitor marks a job here before its agent's process can be seen as gone, and
 * clears the mark after the settle has committed; the reaper reads the marks and leaves marked jobs alone.
 *
 * The registry is in memory only, and may be: it is authoritative **as long as there is exactly one scheduler process**.
 * `compose.yaml` enforces that, the scheduler lock defends it, and at start `requeue_running_jobs` has run before the reaper
 * looks here for the first time, so an empty registry is a true one. With more than one scheduler process the signal would
 * have to become durable.
 *
 * A leaf: it imports nothing of the project, does no I/O and never throws.
 */
export class FinalizerLiveness {
  readonly #marks = new Map<number, Mark>();
  readonly #clock: { now(): number; monotonicMs(): number };

  constructor(clock: { now(): number; monotonicMs(): number }) {
    this.#clock = clock;
  }

  /**
   * Marks `jobId` as being finalized by `runId`. A mark of an earlier run is replaced; that of a later one stays: a run that was
   * reaped may hear of its process's end when the job runs anew, and must not take the protection from the run in its place.
   */
  mark(jobId: number, run: { runId: number; stage: string; abort: AbortController }): void {
    const marked = this.#marks.get(jobId);
    if (marked && marked.runId > run.runId) return;
    this.#marks.set(jobId, {
      ...run,
      startedTs: Math.floor(this.#clock.now() / 1000),
      startedMs: this.#clock.monotonicMs(),
      heldMs: 0,
      held: null,
    });
  }

  /** Clears the mark of that run; a mark that another run has made since stays. @returns whether one was cleared. */
  clear(jobId: number, runId: number): boolean {
    return this.#marks.get(jobId)?.runId === runId && this.#marks.delete(jobId);
  }

  /** Stops the mark's age while its finalizer waits for something that is not its own work, and keeps for what. */
  hold(jobId: number, runId: number, waitsFor: WaitsFor = "lock"): void {
    const mark = this.#marks.get(jobId);
    if (mark?.runId === runId && mark.held === null) mark.held = { waitsFor, sinceMs: this.#clock.monotonicMs() };
  }

  /** Lets the age go on. */
  resume(jobId: number, runId: number): void {
    const mark = this.#marks.get(jobId);
    if (mark?.runId !== runId || mark.held === null) return;
    mark.heldMs += this.#clock.monotonicMs() - mark.held.sinceMs;
    mark.held = null;
  }

  /** What the reaper sees of a job: which run finalizes it and for how long it has been at work (held time not counted). */
  see(jobId: number): { runId: number; ageMs: number } | null {
    const mark = this.#marks.get(jobId);
    if (!mark) return null;
    const until = mark.held?.sinceMs ?? this.#clock.monotonicMs();
    return { runId: mark.runId, ageMs: until - mark.startedMs - mark.heldMs };
  }

  /** Aborts the finalizer that holds the mark: its signal ends its git commands. @returns whether there was one. */
  abort(jobId: number, runId: number, reason: Error): boolean {
    const mark = this.#marks.get(jobId);
    if (mark?.runId !== runId) return false;
    mark.abort.abort(reason);
    return true;
  }

  /** Aborts every finalizer. */
  abortAll(reason: Error): void {
    for (const { abort } of this.#marks.values()) abort.abort(reason);
  }

  /**
   * Aborts the finalizers that have been trying to write for so long. Those that work go on, and so do those that wait for a
   * lock: its holder has an end. @returns the runs that were aborted now.
   */
  abortWriting(forMs: number, reason: Error): number[] {
    const nowMs = this.#clock.monotonicMs();
    const stuck = [...this.#marks.values()].filter(
      ({ held, abort }) => !abort.signal.aborted && held?.waitsFor === "write" && nowMs - held.sinceMs >= forMs,
    );
    for (const { abort } of stuck) abort.abort(reason);
    return stuck.map(({ runId }) => runId);
  }

  /** The jobs that are marked. */
  jobIds(): number[] {
    return [...this.#marks.keys()];
  }

  /** The registry as `GET /queue` shows it. */
  snapshot(): Record<string, { run_id: number; stage: string; started_ts: number }> {
    const entries = [...this.#marks].map(([jobId, mark]) => [
      String(jobId),
      { run_id: mark.runId, stage: mark.stage, started_ts: mark.startedTs },
    ]);
    return Object.fromEntries(entries);
  }
}

/** What a finalizer may have to wait for: its turn with a repository, or a database that can be written again. */
export type WaitsFor = "lock" | "write";

interface Mark {
  runId: number;
  stage: string;
  abort: AbortController;
  /** Seconds since the epoch, for show. */
  startedTs: number;
  startedMs: number;
  heldMs: number;
  held: { waitsFor: WaitsFor; sinceMs: number } | null;
}
