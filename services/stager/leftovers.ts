import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "@orchestrator/shared/clock.ts";
import type { Log } from "@orchestrator/shared/log.ts";
import { endProcesses } from "@orchestrator/shared/process/end_processes.ts";
import { removeTree } from "@orchestrator/shared/remove_tree.ts";
import type { KernelLock } from "@orchestrator/shared/storage/kernel_lock.ts";
import { lockFolder } from "@orchestrator/shared/storage/lock_folder.ts";
import { runFoldersIn, STAGER_FOLDER } from "./scratch.ts";

/**
 * Ends what killed stagers left in a scratch directory: the processes of their runs that can be seen from here, and their
 * folders. Other stagers that are alive are left alone. To be called before this stager opens its own folder.
 * @returns how many processes were ended and how many stagers' folders removed.
 */
export const clearLeftovers = async (options: {
  scratchDir: string;
  clock: Clock;
  log: Pick<Log, "info" | "warn">;
}): Promise<{ processes: number; folders: number }> => {
  const { scratchDir, clock, log } = options;
  const cleared = { processes: 0, folders: 0 };
  for (const name of await stagerFolders(scratchDir)) {
    const folder = join(scratchDir, name);
    let lock: KernelLock | null = null;
    try {
      lock = await lockFolder(folder);
      if (lock === null) continue;
      cleared.processes += await endRuns(folder, clock, log);
      await removeTree(folder);
      cleared.folders += 1;
      log.info({ folder }, "removed what a killed stager had left");
    } catch (error) {
      // A file of another user (made in a container, say) must not keep this stager from starting.
      log.warn({ err: error, folder }, "what a killed stager left could not be removed");
    } finally {
      lock?.release();
    }
  }
  return cleared;
};

const stagerFolders = async (scratchDir: string): Promise<string[]> => {
  const names = await readdir(scratchDir).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw error;
  });
  return names.filter((name) => STAGER_FOLDER.test(name));
};

const endRuns = async (stagerFolder: string, clock: Clock, log: Pick<Log, "warn">): Promise<number> => {
  let count = 0;
  for (const { folder, identity } of await runFoldersIn(stagerFolder)) {
    const { ended, survivors } = await endProcesses({ marks: { ...identity, folder }, graceMs: 0, clock });
    if (survivors.length > 0)
      log.warn({ survivors, ...identity }, "processes of a killed stager's run are still there");
    count += ended;
  }
  return count;
};
