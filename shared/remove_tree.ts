import { randomUUID } from "node:crypto";
import { chmod, lstat, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";

/** Far below what the kernel takes (PATH_MAX is 4096 bytes), so that what lies in such a folder can still be named. */
const LONG_PATH_BYTES = 2048;

/** After the first, each is made on a tree that has been made removable. Against one who goes on writing none would help. */
const MAX_TRIES = 4;

/** Folders without permissions, depths that no path can name, and somebody who writes there or removes at the same time. */
const WORTH_ANOTHER_TRY = new Set(["EACCES", "EPERM", "ENAMETOOLONG", "ENOTEMPTY", "ENOENT"]);

const errorCode = (error: unknown): string => String((error as NodeJS.ErrnoException).code);

/**
 * Removes whatever stands at `path`, or nothing where nothing does: also folders whose owner has taken the permissions away,
 * and such as lie deeper than a path can name. No link is followed.
 * @throws the system's error where something stays, such as another user's files.
 */
export const removeTree = async (path: string): Promise<void> => {
  for (let tries = 1; ; tries++) {
    try {
      if (tries > 1) await makeRemovable(path);
      await rm(path, { recursive: true, force: true });
      return;
    } catch (error) {
      if (tries === MAX_TRIES || !WORTH_ANOTHER_TRY.has(errorCode(error))) throw error;
    }
  }
};

/** Gives the owner all permissions of each folder, and moves what lies too deep to be named to the top of the tree. */
const makeRemovable = async (root: string): Promise<void> => {
  if (!(await isFolder(root))) return;
  await chmod(root, 0o700);
  const folders = [root];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    for (const entry of await readdir(folder, { withFileTypes: true })) {
      if (!entry.isDirectory()) continue;
      const path = join(folder, entry.name);
      try {
        // Before it is moved: that writes into the folder itself.
        await chmod(path, 0o700);
        if (Buffer.byteLength(path) <= LONG_PATH_BYTES) {
          folders.push(path);
          continue;
        }
        const above = join(root, randomUUID());
        await rename(path, above);
        folders.push(above);
      } catch (error) {
        // It has gone meanwhile, or its name is no text: then it is left to `rm`.
        if (errorCode(error) !== "ENOENT") throw error;
      }
    }
  }
};

const isFolder = async (path: string): Promise<boolean> =>
  lstat(path).then(
    (stats) => stats.isDirectory(),
    (error: unknown) => {
      if (errorCode(error) === "ENOENT") return false;
      throw error;
    },
  );
