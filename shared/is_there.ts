import { lstat } from "node:fs/promises";

/**
 * Whether something stands at a path; a link that leads nowhere does.
 * @throws the system's error where that cannot be found out: what cannot be looked at is not absent.
 */
export const isThere = async (path: string): Promise<boolean> => {
  try {
    await lstat(path);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "ENOENT" && code !== "ENOTDIR") throw error;
    return false;
  }
};
