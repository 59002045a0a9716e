import type { Storage } from "./storage.ts";

/**
 * The last run of a job whose agent had exited 0 and which was cut short after that: by a restart, a failing push, a hung or
 * lost finalizer. Its work is collected, so the job goes on at the finalizer.
 * @returns the run's id, or null where the job's last run was not such a one.
 */
export const findCollectedRun = async (storage: Pick<Storage, "query">, jobId: number): Promise<number | null> => {
  // A resumed run has no exit of its own (exit_code stays null): the runs before it decide, as far back as they were cut short.
  const rows = await storage.query<{
    id: number;
    exitCode: number | null;
    outcome: string;
    outcomeClass: string | null;
  }>(
    `SELECT id, exit_code, outcome, outcome_class FROM agent_runs
     WHERE job_id = ? AND outcome IS NOT NULL ORDER BY id DESC LIMIT 50`,
    [jobId],
  );
  for (const row of rows) {
    const cutShort = row.outcome === "interrupted" || row.outcome === "tool_error" || row.outcomeClass === "lost";
    if (!cutShort) return null;
    if (row.exitCode === 0) return row.id;
  }
  return null;
};
