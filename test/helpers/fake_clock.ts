import type { Clock } from "@orchestrator/shared/clock.ts";

/** A clock that moves only when it is told to. */
export class FakeClock implements Clock {
  #wallMs: number;
  #monotonicMs = 0;

  constructor(start = "2026-01-01T00:00:00.000Z") {
    this.#wallMs = Date.parse(start);
  }

  now(): number {
    return this.#wallMs;
  }

  monotonicMs(): number {
    return this.#monotonicMs;
  }

  advance(ms: number): void {
    this.#wallMs += ms;
    this.#monotonicMs += ms;
  }

  /** Somebody sets the wall clock; no time passes. */
  setWall(ms: number): void {
    this.#wallMs = ms;
  }
}
