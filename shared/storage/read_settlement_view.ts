import type { Job, Run, Task } from "../schemas/rows.ts";
import { JOB_COLUMNS, RUN_COLUMNS, TASK_COLUMNS } from "./columns.ts";
import type { Tx } from "./storage.ts";

export interface SettlementView {
  task: Task;
  job: Job;
  run: Run;
  /** The job's other runs, newest first. */
  earlier: Pick<Run, "outcome" | "outcomeClass">[];
}

/** All that the settle of a run rests on, read inside its transaction. A job has few runs: their number is bounded by the retry rules. */
export const readSettlementView = async (tx: Tx, runId: number): Promise<SettlementView> => {
  const [run] = await tx.query<Run>(`SELECT ${RUN_COLUMNS} FROM agent_runs WHERE id = ?`, [runId]);
  const [job] = await tx.query<Job>(`SELECT ${JOB_COLUMNS} FROM jobs WHERE id = ?`, [run!.jobId]);
  const [task] = await tx.query<Task>(`SELECT ${TASK_COLUMNS} FROM tasks WHERE id = ?`, [run!.taskId]);
  const earlier = await tx.query<Run>(
    "SELECT outcome, outcome_class FROM agent_runs WHERE job_id = ? AND id < ? ORDER BY id DESC",
    [run!.jobId, runId],
  );
  return { task: task!, job: job!, run: run!, earlier };
};
