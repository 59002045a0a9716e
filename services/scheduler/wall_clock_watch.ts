import type { Clock } from "@orchestrator/shared/clock.ts";

/** Below this, in ms, the two clocks merely run differently fast, or were not read at the same moment. */
const STEP_MS = 1_000;

/** Sees, by the monotonic clock, that somebody has set the wall clock back. */
export class WallClockWatch {
  readonly #clock: Clock;
  #offsetMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#offsetMs = clock.now() - clock.monotonicMs();
  }

  /** How far the wall clock was set back since this was last heeded, in ms; 0 where it was not. */
  setBackMs(): number {
    const offsetMs = this.#clock.now() - this.#clock.monotonicMs();
    const backMs = this.#offsetMs - offsetMs;
    if (backMs >= STEP_MS) return backMs;
    // What is queued from now on goes by a clock that was set forward.
    this.#offsetMs = Math.max(this.#offsetMs, offsetMs);
    return 0;
  }

  /** Says that all that waited has been moved by so much. */
  heeded(backMs: number): void {
    this.#offsetMs -= backMs;
  }
}
