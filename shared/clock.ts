/**
 * Time, handed in. Wall-clock time is for people and for `available_at`; ages and timeouts are measured on the monotonic
 * clock, which a change of the system's time does not move.
 */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Milliseconds on a clock that only goes forward; its zero means nothing. */
  monotonicMs(): number;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonicMs: () => performance.now(),
};

/** A time as the database and the API write it: ISO 8601, UTC, milliseconds. Such texts sort as the times do. */
export const isoTime = (epochMs: number): string => new Date(epochMs).toISOString();
