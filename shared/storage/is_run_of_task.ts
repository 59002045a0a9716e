import type { Storage } from "./storage.ts";

/** Whether a run, known by its id alone (a trailer in a commit says it), is one of the task's. */
export const isRunOfTask = async (storage: Pick<Storage, "query">, runId: number, taskId: number): Promise<boolean> => {
  const rows = await storage.query("SELECT 1 FROM agent_runs WHERE id = ? AND task_id = ?", [runId, taskId]);
  return rows.length > 0;
};
