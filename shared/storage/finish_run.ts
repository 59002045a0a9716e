import type { Outcome } from "../domain.ts";
import type { Run } from "../schemas/rows.ts";
import type { Tx } from "./tx.ts";

/**
 * Records how a run ended, once: a run that has an outcome keeps it.
 * @returns false where it had one already.
 */
export const finishRun = async (
  tx: Tx,
  runId: number,
  ending: { outcome: Outcome; class: string | null; reason: string | null },
): Promise<boolean> => {
  const [run] = await tx.query<Pick<Run, "jobId" | "agent" | "stage">>(
    `UPDATE agent_runs SET outcome = ?, outcome_class = ?, reason = ?, finished_at = ? WHERE id = ? AND outcome IS NULL
     RETURNING job_id, agent, stage`,
    [ending.outcome, ending.class, ending.reason, tx.now, runId],
  );
  if (!run) return false;
  tx.runEnded({ ...run, runId, ...ending });
  return true;
};
