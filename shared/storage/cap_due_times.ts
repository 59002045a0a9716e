import type { Tx } from "./tx.ts";

/**
 * Makes what is queued due no later than `latest`. For the start: a wall clock that was ahead, and was set right while no
 * scheduler lived, leaves jobs behind that would wait for as long as it was ahead.
 * @returns how many jobs were moved.
 */
export const capDueTimes = (tx: Tx, latest: string): Promise<number> =>
  tx.run("UPDATE jobs SET available_at = ?1 WHERE status = 'queued' AND available_at > ?1", [latest]);
