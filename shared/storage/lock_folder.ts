import { join } from "node:path";
import { isThere } from "../is_there.ts";
import { removeTree } from "../remove_tree.ts";
import { UnusableError } from "../unusable.ts";
import { type KernelLock, takeKernelLock } from "./kernel_lock.ts";

const LOCK_FILE = "lock.db";
const MAX_TRIES = 10;

export interface LockedFolder {
  folder: string;
  lock: KernelLock;
}

/**
 * Makes a folder with a lock in it, which the kernel keeps for the life of this process: where the lock is free, whoever made
 * the folder is gone. Somebody who clears up may take it for left between its making and its locking: then another is made.
 * @param parent where it is made, for the message.
 * @param make makes a folder there by a name that none has had, and returns its path.
 * @throws where none can be made, locked or kept; nothing is left behind then.
 */
export const makeLockedFolder = async (parent: string, make: () => Promise<string>): Promise<LockedFolder> => {
  for (let tries = 1; ; tries++) {
    const folder = await make();
    let fault: unknown = new UnusableError(`no folder in ${parent} stays`, "end what is clearing it");
    try {
      const lock = await lockFolder(folder);
      if (lock !== null) return { folder, lock };
    } catch (error) {
      fault = error;
    }
    await removeTree(folder);
    if (tries === MAX_TRIES) throw fault;
  }
};

/**
 * Takes the lock of a folder, whose owner is gone then. A folder that was not locked yet gets a lock by it.
 * @returns null where a process that lives holds it, or where the folder or its lock was removed meanwhile.
 * @throws where the folder is there and cannot be locked.
 */
export const lockFolder = async (folder: string): Promise<KernelLock | null> => {
  let lock: KernelLock | null;
  try {
    lock = await takeKernelLock(join(folder, LOCK_FILE));
  } catch (error) {
    if (await isThere(folder)) throw error;
    return null;
  }
  if (lock === null || (await lock.findFault()) === null) return lock;
  lock.release();
  return null;
};

/** Whether a folder has a lock in it, held or free. To ask takes none and makes none. */
export const hasLock = (folder: string): Promise<boolean> => isThere(join(folder, LOCK_FILE));
