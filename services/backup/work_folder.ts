import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { isThere } from "@orchestrator/shared/is_there.ts";
import { type KernelLock, takeKernelLock } from "@orchestrator/shared/storage/kernel_lock.ts";
import { UnusableError } from "@orchestrator/shared/unusable.ts";

/** What `mkdtemp` makes of a kind. */
const NAME = /^(backup|restore)-[A-Za-z0-9]{6}$/;
/** Beside the content and not in it: the content is what goes into the backup. */
const LOCK_FILE = "lock.db";
const CONTENT = "content";
const MAX_TRIES = 3;

export interface WorkFolderOptions {
  /** Where it is made, and where those of earlier backups and restores are looked for. */
  parent: string;
  kind: "backup" | "restore";
  /** Told what was cleared up, a line each. */
  say: (line: string) => void;
}

/**
 * Removes what backups and restores that were killed have left in a folder, makes a fresh folder there that only this user can
 * enter, hands it to `use`, and removes it. Whether one is in use says a lock in it, which the kernel keeps for the life of the
 * process that made it: where the lock is free, that process is gone. A folder without one is none of theirs.
 */
export const inWorkFolder = async <T>(
  { parent, kind, say }: WorkFolderOptions,
  use: (folder: string) => Promise<T>,
): Promise<T> => {
  await clearLeftFolders(parent, say);
  const { folder, lock } = await makeLocked(parent, kind);
  try {
    const content = join(folder, CONTENT);
    await mkdir(content, { mode: 0o700 });
    return await use(content);
  } finally {
    await remove(folder).finally(() => lock.release());
  }
};

const clearLeftFolders = async (parent: string, say: (line: string) => void): Promise<void> => {
  for (const entry of await readdir(parent, { withFileTypes: true })) {
    if (!entry.isDirectory() || !NAME.test(entry.name)) continue;
    const folder = join(parent, entry.name);
    try {
      // Looked for before: to take a lock is to make its file.
      const lock = (await isThere(join(folder, LOCK_FILE))) ? await lockIn(folder) : null;
      if (lock === null) continue;
      await remove(folder).finally(() => lock.release());
      say(`removed ${folder}, which was left when its process was killed`);
    } catch (error) {
      // A folder of another user must not keep this one from its work.
      const { message = error } = error as Partial<Error>;
      say(`${folder} was left when its process was killed and cannot be removed (${message}): remove it by hand`);
    }
  }
};

/** Somebody who clears up may take a folder for left between its making and its locking: then another one is made. */
const makeLocked = async (
  parent: string,
  kind: WorkFolderOptions["kind"],
): Promise<{ folder: string; lock: KernelLock }> => {
  for (let tries = 1; ; tries++) {
    const folder = await mkdtemp(join(parent, `${kind}-`));
    let fault: unknown = new UnusableError(`no folder in ${parent} stays`, "end what is clearing it");
    try {
      const lock = await lockIn(folder);
      if (lock !== null) return { folder, lock };
    } catch (error) {
      fault = error;
    }
    await rm(folder, { recursive: true, force: true });
    if (tries === MAX_TRIES) throw fault;
  }
};

/** @returns null where a process that lives holds it, or where it was removed meanwhile. */
const lockIn = async (folder: string): Promise<KernelLock | null> => {
  const lock = await takeKernelLock(join(folder, LOCK_FILE));
  if (lock === null || (await lock.findFault()) === null) return lock;
  lock.release();
  return null;
};

/** The lock goes last: of what is cut short here, the rest is still known for what it is. */
const remove = async (folder: string): Promise<void> => {
  await rm(join(folder, CONTENT), { recursive: true, force: true });
  await rm(folder, { recursive: true, force: true });
};
