import type { JobStatus } from "../domain.ts";
import { endTaskLease } from "./end_task_lease.ts";
import type { Tx } from "./tx.ts";

/** The job that a run works on, while it still works on it. */
export interface JobHold {
  jobId: number;
  taskId: number;
  runId: number;
}

/** Ends a running job for good. @returns false where it is no longer running this run. */
export const endJob = async (
  tx: Tx,
  { jobId, runId }: JobHold,
  to: Extract<JobStatus, "done" | "failed" | "cancelled">,
  error: string | null,
): Promise<boolean> => {
  const changed = await tx.run(
    "UPDATE jobs SET status = ?, error = ?, finished_at = ? WHERE id = ? AND status = 'running' AND run_id = ?",
    [to, error, tx.now, jobId, runId],
  );
  if (changed === 0) return false;
  tx.jobMoved("running", to);
  return true;
};

/** Puts a running job back into the queue and takes the task's lease from its run. @returns false where it is no longer running this run. */
export const requeueJob = async (
  tx: Tx,
  { jobId, taskId, runId }: JobHold,
  again: { attempt: number; availableAt: string; error: string | null },
): Promise<boolean> => {
  const changed = await tx.run(
    `UPDATE jobs SET status = 'queued', run_id = NULL, attempt = ?, available_at = ?, error = ?
     WHERE id = ? AND status = 'running' AND run_id = ?`,
    [again.attempt, again.availableAt, again.error, jobId, runId],
  );
  if (changed === 0) return false;
  tx.jobMoved("running", "queued");
  await endTaskLease(tx, { taskId, runId });
  return true;
};
