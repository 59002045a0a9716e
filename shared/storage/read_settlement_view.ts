import { STAGER_UNREACHABLE } from "../outcome_class.ts";
import type { Job, Run, Task } from "../schemas/rows.ts";
import { JOB_COLUMNS, RUN_COLUMNS, TASK_COLUMNS } from "./columns.ts";
import type { Tx } from "./tx.ts";

export interface SettlementView {
  task: Task;
  job: Job;
  run: Run;
  /** The job's newest runs before this one, newest first: enough for what is counted in a row. */
  earlier: Pick<Run, "outcome" | "outcomeClass">[];
  /** How many of all the job's runs before this one ended in a tool error that the bound counts. */
  toolErrors: number;
}

/** More than any rule counts in a row. A job that waits for the stager for days has runs without bound. */
const NEWEST = 16;

/** All that the settle of a run rests on, read inside its transaction. */
export const readSettlementView = async (tx: Tx, runId: number): Promise<SettlementView> => {
  const [run] = await tx.query<Run>(`SELECT ${RUN_COLUMNS} FROM agent_runs WHERE id = ?`, [runId]);
  const [job] = await tx.query<Job>(`SELECT ${JOB_COLUMNS} FROM jobs WHERE id = ?`, [run!.jobId]);
  const [task] = await tx.query<Task>(`SELECT ${TASK_COLUMNS} FROM tasks WHERE id = ?`, [run!.taskId]);
  const earlier = await tx.query<Run>(
    `SELECT outcome, outcome_class FROM agent_runs WHERE job_id = ? AND id < ? ORDER BY id DESC LIMIT ${NEWEST}`,
    [run!.jobId, runId],
  );
  const [counted] = await tx.query<{ n: number }>(
    `SELECT count(*) AS n FROM agent_runs
     WHERE job_id = ? AND id < ? AND outcome = 'tool_error' AND outcome_class IS NOT '${STAGER_UNREACHABLE}'`,
    [run!.jobId, runId],
  );
  return { task: task!, job: job!, run: run!, earlier, toolErrors: counted!.n };
};
