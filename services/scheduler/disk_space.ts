import { statfs } from "node:fs/promises";

/** Below this much free space nothing new is claimed: a run that fills the disk takes the others with it. */
export const MIN_FREE_BYTES = 256 * 1024 * 1024;

/** How many bytes an unprivileged user may still write in the file system that holds `folder`. */
export const freeBytes = async (folder: string): Promise<number> => {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
};
