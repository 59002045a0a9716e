import type { Run } from "../schemas/rows.ts";
import { wasCutShort } from "./find_tested_runs.ts";
import type { Storage } from "./storage.ts";

export interface EarlierRun extends Pick<Run, "id" | "jobId" | "stage" | "agent" | "attempt" | "outcome"> {
  /**
   * Its agent exited 0 of itself, and the run was cut short after that by something around it (a restart, a failing push, a
   * hung or lost finalizer); nobody has judged its work since.
   */
  isFinished: boolean;
  /** The newest run since that went on with its work and was turned away by the gate: under its id the work is kept. */
  judgedBy: number | null;
}

/** As far back as runs that came to nothing are passed over; a job's retry rules allow fewer in a row. */
const LOOK_BACK = 100;

/**
 * The task's last run before `runId` whose agent was started, as far as is known: what stands in the workspace is its, or
 * nobody's. Runs that came to nothing before their agent, or went on with collected work, are passed over.
 */
export const findEarlierRun = async (
  storage: Pick<Storage, "query">,
  taskId: number,
  runId: number,
): Promise<EarlierRun | null> => {
  const rows = await storage.query<Candidate>(
    `SELECT id, job_id, stage, agent, attempt, exit_code, signal, outcome, outcome_class, pid_started
     FROM agent_runs WHERE task_id = ? AND id < ? ORDER BY id DESC LIMIT ${LOOK_BACK}`,
    [taskId, runId],
  );
  const at = rows.findIndex((row) => row.pidStarted !== null);
  const author = rows[at];
  if (!author) return null;
  const { id, jobId, stage, agent, attempt, outcome } = author;
  const judgedBy = rows.slice(0, at).find((row) => !wasCutShort(row))?.id ?? null;
  // An exit that came upon a signal of ours is recorded with it: a 0 then is the agent's good manners, not its work's end.
  const isFinished = author.exitCode === 0 && author.signal === null && wasCutShort(author) && judgedBy === null;
  return { id, jobId, stage, agent, attempt, outcome, isFinished, judgedBy };
};

type Candidate = Pick<
  Run,
  "id" | "jobId" | "stage" | "agent" | "attempt" | "exitCode" | "signal" | "outcome" | "outcomeClass" | "pidStarted"
>;
