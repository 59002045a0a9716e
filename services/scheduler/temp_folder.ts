import { chmod, lstat, mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";

/** Where the scheduler keeps what it needs for a moment: prompts, above all. What a killed one left there can be found. */
export const tempFolderOf = (dataDir: string): string => join(dataDir, "tmp");

/**
 * Makes the folder where it is missing, for this user alone, and removes what a killed scheduler has left in it. To be called
 * by the only scheduler there is. It may be a file system of its own; a link in its place is not followed but replaced.
 */
export const clearTempFolder = async (dataDir: string): Promise<void> => {
  const folder = tempFolderOf(dataDir);
  if (!(await isFolder(folder))) {
    await rm(folder, { force: true });
    await mkdir(folder);
  }
  await chmod(folder, 0o700);
  for (const name of await readdir(folder)) await rm(join(folder, name), { recursive: true, force: true });
};

const isFolder = (path: string): Promise<boolean> =>
  lstat(path).then(
    (entry) => entry.isDirectory(),
    (error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return false;
      throw error;
    },
  );
