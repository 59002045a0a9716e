import type { Abortable } from "@orchestrator/shared/git/commit_reader.ts";
import type { Mirror } from "./mirror.ts";
import { runRef, wipRef } from "./refs.ts";

/** Whether the mirror has what a run left, as its collected work or as it was: then the workspace holds no more than that. */
export const isKept = async (mirror: Pick<Mirror, "resolve">, runId: number, options: Abortable): Promise<boolean> => {
  for (const ref of [runRef(runId), wipRef(runId)]) if ((await mirror.resolve(ref, options)) !== null) return true;
  return false;
};
