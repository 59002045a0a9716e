import type { Dirent } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";

/** Git opens these wherever it finds them, and waits in the open where one of them is a pipe. */
const READ_BY_GIT = new Set([".gitignore", ".gitattributes", ".gitmodules"]);

/**
 * Removes special files under the names that git reads in every folder: at a pipe it would wait until its time is over, with
 * the mirror held for as long, and a special file is nothing that could be committed. No link is followed.
 * @returns the paths of what was removed.
 */
export const removeTraps = async (root: string): Promise<string[]> => {
  const removed: string[] = [];
  const folders = [root];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    for (const entry of await entriesOf(folder)) {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) {
        if (entry.name !== ".git") folders.push(path);
      } else if (READ_BY_GIT.has(entry.name) && !entry.isFile() && !entry.isSymbolicLink()) {
        await rm(path, { force: true });
        removed.push(path);
      }
    }
  }
  return removed;
};

/** A folder that cannot be looked into by this process is none that its git could look into. */
const entriesOf = async (folder: string): Promise<Dirent[]> => {
  try {
    return await readdir(folder, { withFileTypes: true });
  } catch (error) {
    if (CLOSED.has((error as NodeJS.ErrnoException).code ?? "")) return [];
    throw error;
  }
};

const CLOSED = new Set(["EACCES", "EPERM", "ENAMETOOLONG", "ENOENT", "ENOTDIR"]);
