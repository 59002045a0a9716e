import type { Tx } from "./tx.ts";

/**
 * Changes nothing, at no cost, and fails where the database cannot be written: a transaction that has only begun says
 * nothing about that, since on a read-only file it becomes a reading one.
 */
export const probeWrite = async (tx: Tx): Promise<void> => {
  await tx.run("UPDATE tasks SET updated_at = updated_at WHERE id < 0");
};
