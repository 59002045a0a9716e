import type { Tx } from "./tx.ts";

/**
 * Brings what waits for its time as much nearer as the wall clock was set back, but not before now: it waits as long as it
 * was meant to.
 * @param backMs how far the clock went back.
 * @returns how many jobs were moved.
 */
export const shiftDueTimes = (tx: Tx, backMs: number): Promise<number> =>
  tx.run(
    `UPDATE jobs SET available_at = max(?1, strftime('%Y-%m-%dT%H:%M:%fZ', available_at, ?2))
     WHERE status = 'queued' AND available_at > ?1`,
    [tx.now, `-${(backMs / 1000).toFixed(3)} seconds`],
  );
