import type { Run } from "../schemas/rows.ts";
import { CUT_SHORT } from "./cut_short.ts";
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
  const rows = await storage.query<Pick<Run, "id"> & { wasCutShort: 0 | 1 }>(
    `SELECT id, ${CUT_SHORT} AS was_cut_short FROM agent_runs
     WHERE job_id = ? AND id < ? ORDER BY id DESC LIMIT ${LOOK_BACK}`,
    [jobId, runId],
  );
  const judged = rows.findIndex((row) => row.wasCutShort === 0);
  return rows.slice(0, judged === -1 ? rows.length : judged).map((row) => row.id);
};
