import type { Tx } from "./tx.ts";

/**
 * Records that claiming stops for `what`. What is paused already keeps its `since` and takes the new reason.
 * @returns false where just this stood there already.
 */
export const insertPause = async (tx: Tx, what: string, reason: string): Promise<boolean> => {
  const changed = await tx.query(
    `INSERT INTO queue_state (what, reason, since) VALUES (?, ?, ?)
     ON CONFLICT (what) DO UPDATE SET reason = excluded.reason WHERE reason <> excluded.reason RETURNING what`,
    [what, reason, tx.now],
  );
  return changed.length > 0;
};
