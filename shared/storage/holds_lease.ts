import type { JobHold } from "./end_job.ts";
import type { Storage } from "./storage.ts";

/** Whether the job is still this run's: nobody has cancelled it, requeued it or taken it over. */
export const holdsLease = async (
  storage: Pick<Storage, "query">,
  { jobId, taskId, runId }: JobHold,
): Promise<boolean> => {
  const rows = await storage.query(
    `SELECT 1 FROM jobs j JOIN tasks t ON t.id = j.task_id
     WHERE j.id = ?1 AND t.id = ?2 AND j.status = 'running' AND j.run_id = ?3 AND t.lease_run_id = ?3`,
    [jobId, taskId, runId],
  );
  return rows.length > 0;
};
