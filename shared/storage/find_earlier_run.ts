import type { Run } from "../schemas/rows.ts";
import type { Storage } from "./storage.ts";

export interface EarlierRun extends Pick<Run, "id" | "jobId" | "stage" | "agent" | "attempt" | "exitCode"> {
  /** It ended by something around it (restart, failing push, hung or lost finalizer), not by its work. */
  cutShort: boolean;
}

/**
 * The task's last run before `runId` that started an agent: whose work the workspace holds. Runs that came to nothing before
 * their agent, or went on with collected work, are passed over.
 */
export const findEarlierRun = async (
  storage: Pick<Storage, "query">,
  taskId: number,
  runId: number,
): Promise<EarlierRun | null> => {
  const [row] = await storage.query<Omit<EarlierRun, "cutShort"> & { cutShort: number }>(
    `SELECT id, job_id, stage, agent, attempt, exit_code,
       coalesce(outcome IN ('interrupted', 'tool_error') OR outcome_class = 'lost', 0) AS cut_short
     FROM agent_runs WHERE task_id = ? AND id < ? AND pid IS NOT NULL ORDER BY id DESC LIMIT 1`,
    [taskId, runId],
  );
  return row ? { ...row, cutShort: row.cutShort === 1 } : null;
};
