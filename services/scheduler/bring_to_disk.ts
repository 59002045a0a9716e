import { execFile } from "node:child_process";
import type { Log } from "@orchestrator/shared/log.ts";

/** A disk that takes longer than this, in ms, is not waited for. */
const LONGEST_MS = 60_000;

/**
 * Has the file system of `folder` write what it holds in memory, as an agent's keeper does before it ends (`agent_keeper.ts`):
 * before an exit 0 is recorded whose keeper did not come to that. Never rejects: where it fails, what is lost is lost only
 * together with the power, and is said.
 */
export const bringToDisk = (folder: string, log: Log): Promise<void> =>
  new Promise((resolve) => {
    execFile("sync", ["-f", folder], { timeout: LONGEST_MS }, (error) => {
      if (error)
        log.warn(
          { err: error, folder },
          "what an agent wrote may not be on the disk yet: sync -f could not be run to its end",
        );
      resolve();
    });
  });
