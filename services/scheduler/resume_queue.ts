import type { Config } from "@orchestrator/shared/config/config.ts";
import { deletePause } from "@orchestrator/shared/storage/delete_pause.ts";
import { readPauses } from "@orchestrator/shared/storage/read_pauses.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";
import { type PauseTarget, pauseNames, unknownNames } from "./pause_names.ts";
import type { PauseResult } from "./pause_queue.ts";

/**
 * Goes on claiming what is named; where nothing is named, everything: no pause of whatever kind is left then. Resuming what
 * is not paused changes nothing.
 */
export const resumeQueue = async (
  { storage, config }: { storage: Storage; config: Pick<Config, "pipeline" | "agents" | "repos"> },
  { reason, ...target }: PauseTarget & { reason?: string | undefined },
): Promise<PauseResult> =>
  storage.write(async (tx) => {
    const paused = (await readPauses(tx)).map(({ what }) => what);
    const errors = unknownNames(target, config, new Set(paused));
    if (errors.length > 0) return { kind: "invalid", errors };
    const named = pauseNames(target);
    for (const what of named.length > 0 ? named : paused) {
      if (!(await deletePause(tx, what))) continue;
      await tx.event("resumed", { taskId: null }, { what, by: "person", ...(reason === undefined ? {} : { reason }) });
    }
    return { kind: "ok", paused: await readPauses(tx) };
  });
