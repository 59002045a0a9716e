import { readFile } from "node:fs/promises";
import { STAGING_STAGE } from "@orchestrator/shared/domain.ts";
import type { RunRow } from "./task_view.ts";

/** How a step's end stands in the log of a staging run: `step smoke: passed in 0.1 s`. */
const STEP_END = /^step .+: (passed|failed|tool_error)\b.*(?=\n)/gm;

/**
 * Gives the steps that have ended since it was asked last, as lines, from the logs of the staging runs. A log that is not
 * there yet has none.
 */
export const makeStagingProgress = (): ((runs: readonly RunRow[]) => Promise<string[]>) => {
  const shown = new Map<number, number>();
  return async (runs) => {
    const fresh: string[] = [];
    for (const run of runs) {
      if (run.stage !== STAGING_STAGE || run.log_path === null) continue;
      const steps = (await readIfThere(run.log_path)).match(STEP_END) ?? [];
      fresh.push(...steps.slice(shown.get(run.id) ?? 0));
      shown.set(run.id, steps.length);
    }
    return fresh;
  };
};

const readIfThere = async (path: string): Promise<string> => {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    return "";
  }
};
