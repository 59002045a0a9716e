import type { Outcome } from "../domain.ts";
import type { Tx } from "./storage.ts";

/**
 * Records how a run ended, once: a run that has an outcome keeps it.
 * @returns false where it had one already.
 */
export const finishRun = async (
  tx: Tx,
  runId: number,
  ending: { outcome: Outcome; class: string | null; reason: string | null },
): Promise<boolean> => {
  const changed = await tx.run(
    "UPDATE agent_runs SET outcome = ?, outcome_class = ?, reason = ?, finished_at = ? WHERE id = ? AND outcome IS NULL",
    [ending.outcome, ending.class, ending.reason, tx.now, runId],
  );
  return changed === 1;
};
