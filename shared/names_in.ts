import { readdir } from "node:fs/promises";

/** The names in a folder, sorted. One that is not there has nothing in it. */
export const namesIn = async (path: string): Promise<string[]> => {
  try {
    return (await readdir(path)).sort();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
};
