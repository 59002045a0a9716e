import { statfs } from "node:fs/promises";

/** How many bytes an unprivileged user may still write in the file system that holds `folder`. */
export const freeBytes = async (folder: string): Promise<number> => {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
};
