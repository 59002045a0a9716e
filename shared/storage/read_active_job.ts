import type { Job } from "../schemas/rows.ts";
import { JOB_COLUMNS } from "./columns.ts";
import type { Tx } from "./tx.ts";

/** The task's job that is queued or running, of which there is at most one; null where there is none. */
export const readActiveJob = async (tx: Pick<Tx, "query">, taskId: number): Promise<Job | null> => {
  const [job] = await tx.query<Job>(
    `SELECT ${JOB_COLUMNS} FROM jobs WHERE task_id = ? AND status IN ('queued', 'running')`,
    [taskId],
  );
  return job ?? null;
};
