import type { Tx } from "./tx.ts";

/** Takes a job out of the queue for good. @returns false where it is not queued (any more). */
export const cancelQueuedJob = async (tx: Tx, jobId: number, reason: string): Promise<boolean> => {
  const changed = await tx.run(
    "UPDATE jobs SET status = 'cancelled', error = ?, finished_at = ? WHERE id = ? AND status = 'queued'",
    [reason, tx.now, jobId],
  );
  if (changed === 0) return false;
  tx.jobMoved("queued", "cancelled");
  return true;
};
