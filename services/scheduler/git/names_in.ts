import { readdir } from "node:fs/promises";

/** A folder that is not there has nothing in it. */
export const namesIn = async (path: string): Promise<string[]> => {
  try {
    return await readdir(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
};
