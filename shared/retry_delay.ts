const FIRST_MS = 10_000;
const LONGEST_MS = 5 * 60_000;
const JITTER = 0.1;

/**
 * How long a job waits before its next attempt: 10 s × 2^(n-1), at most 5 min (10, 20, 40, 80, 160, 300 …), and up to 10 %
 * more, so that what failed together does not come back together.
 * @param n which failure this was, from 1.
 * @param random from 0 to 1.
 */
export const retryDelayMs = (n: number, random: number): number =>
  Math.round(backoffMs(n, FIRST_MS, LONGEST_MS) * (1 + JITTER * random));

/** `firstMs` × 2^(n-1), at most `longestMs`. @param n from 1. */
export const backoffMs = (n: number, firstMs: number, longestMs: number): number =>
  Math.min(firstMs * 2 ** Math.min(n - 1, 30), longestMs);
