import type { Tx } from "./tx.ts";

/** Records that claiming goes on for `what`. @returns false where it was not paused. */
export const deletePause = async (tx: Tx, what: string): Promise<boolean> => {
  const changed = await tx.run("DELETE FROM queue_state WHERE what = ?", [what]);
  if (changed === 0) return false;
  tx.queueOpened();
  return true;
};
