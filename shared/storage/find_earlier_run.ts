import type { Run } from "../schemas/rows.ts";
import { CUT_SHORT } from "./cut_short.ts";
import type { Storage } from "./storage.ts";

export interface EarlierRun extends Pick<Run, "id" | "jobId" | "stage" | "agent" | "attempt" | "outcome"> {
  /**
   * Its agent exited 0 of itself, and the run was cut short after that by something around it (a restart, a failing push,
   * somebody else's commit on the branch); nobody has judged its work since.
   */
  isFinished: boolean;
  /** The newest run since that went on with its work and was turned away by the gate: under its id the work is kept. */
  judgedBy: number | null;
}

/**
 * The task's last run before `runId` whose agent was started, as far as is known: what stands in the workspace is its, or
 * nobody's. Runs that came to nothing before their agent, or went on with collected work, are passed over: there may be any
 * number of them, since one that waits for the stager has no bound.
 */
export const findEarlierRun = async (
  storage: Pick<Storage, "query">,
  taskId: number,
  runId: number,
): Promise<EarlierRun | null> => {
  const [author] = await storage.query<Author>(
    `SELECT id, job_id, stage, agent, attempt, outcome, exit_code, signal, ${CUT_SHORT} AS was_cut_short FROM agent_runs
     WHERE task_id = ? AND id < ? AND pid_started IS NOT NULL ORDER BY id DESC LIMIT 1`,
    [taskId, runId],
  );
  if (!author) return null;
  const [judge] = await storage.query<Pick<Run, "id">>(
    `SELECT id FROM agent_runs WHERE task_id = ? AND id > ? AND id < ? AND NOT ${CUT_SHORT} ORDER BY id DESC LIMIT 1`,
    [taskId, author.id, runId],
  );
  const { id, jobId, stage, agent, attempt, outcome } = author;
  const judgedBy = judge?.id ?? null;
  // An exit that came upon a signal of ours is recorded with it: a 0 then is the agent's good manners, not its work's end.
  const isFinished = author.exitCode === 0 && author.signal === null && author.wasCutShort === 1 && judgedBy === null;
  return { id, jobId, stage, agent, attempt, outcome, isFinished, judgedBy };
};

interface Author extends Pick<Run, "id" | "jobId" | "stage" | "agent" | "attempt" | "outcome" | "exitCode" | "signal"> {
  wasCutShort: 0 | 1;
}
