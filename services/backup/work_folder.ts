import { mkdir, mkdtemp, readdir } from "node:fs/promises";
import { join } from "node:path";
import { removeTree } from "@orchestrator/shared/remove_tree.ts";
import { hasLock, lockFolder, makeLockedFolder } from "@orchestrator/shared/storage/lock_folder.ts";

/** What `mkdtemp` makes of a kind. */
const NAME = /^(backup|restore)-[A-Za-z0-9]{6}$/;
/** Beside the lock, which is not to go into the backup. */
const CONTENT = "content";

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
  const { folder, lock } = await makeLockedFolder(parent, () => mkdtemp(join(parent, `${kind}-`)));
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
      const lock = (await hasLock(folder)) ? await lockFolder(folder) : null;
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

/** The lock goes last: of what is cut short here, the rest is still known for what it is. */
const remove = async (folder: string): Promise<void> => {
  await removeTree(join(folder, CONTENT));
  await removeTree(folder);
};
