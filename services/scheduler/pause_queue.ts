import type { Config } from "@orchestrator/shared/config/config.ts";
import type { InputError } from "@orchestrator/shared/http/problem.ts";
import { insertPause } from "@orchestrator/shared/storage/insert_pause.ts";
import { type Pause, readPauses } from "@orchestrator/shared/storage/read_pauses.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";
import { type PauseTarget, pauseNames, unknownNames } from "./pause_names.ts";

export type PauseResult = { kind: "ok"; paused: Pause[] } | { kind: "invalid"; errors: InputError[] };

/**
 * Stops claiming: of what is named, or of all. Work that runs goes on. It holds until a person resumes it, across restarts.
 * Pausing what is paused already changes no more than its reason.
 */
export const pauseQueue = async (
  { storage, config }: { storage: Storage; config: Pick<Config, "pipeline" | "agents" | "repos"> },
  { reason, ...target }: PauseTarget & { reason?: string | undefined },
): Promise<PauseResult> => {
  const errors = unknownNames(target, config);
  if (errors.length > 0) return { kind: "invalid", errors };
  const named = pauseNames(target);
  return storage.write(async (tx) => {
    for (const what of named.length > 0 ? named : ["all"]) {
      const why = reason ?? "paused by a person";
      if (!(await insertPause(tx, what, why))) continue;
      await tx.event("paused", { taskId: null }, { what, reason: why, by: "person" });
    }
    return { kind: "ok", paused: await readPauses(tx) };
  });
};
