import type { Run } from "../schemas/rows.ts";
import type { Storage } from "./storage.ts";

/** Further back nobody looks: what was cut short is taken up again by the next run. */
const LOOK_BACK = 20;

/**
 * The runs of a job before `runId` that were cut short and that nobody has judged since, newest first: one of them may have
 * been tested to its end, with nothing missing but the settle.
 */
export const findTestedRuns = async (
  storage: Pick<Storage, "query">,
  jobId: number,
  runId: number,
): Promise<number[]> => {
  const rows = await storage.query<Pick<Run, "id" | "outcome" | "outcomeClass">>(
    `SELECT id, outcome, outcome_class FROM agent_runs WHERE job_id = ? AND id < ? ORDER BY id DESC LIMIT ${LOOK_BACK}`,
    [jobId, runId],
  );
  const judged = rows.findIndex((row) => !wasCutShort(row));
  return rows.slice(0, judged === -1 ? rows.length : judged).map((row) => row.id);
};

/** It ended by something around it (a restart, a failing push, a hung or lost finalizer), not by its work. */
export const wasCutShort = ({ outcome, outcomeClass }: Pick<Run, "outcome" | "outcomeClass">): boolean =>
  outcome === "interrupted" || outcome === "tool_error" || outcomeClass === "lost";
