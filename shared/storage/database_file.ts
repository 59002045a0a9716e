import { readlink, realpath } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { UnusableError } from "../unusable.ts";
import { fileOfUrl } from "./connection.ts";

/**
 * The file of a database, without the links that lead there; of one that is not there yet, where it would be made.
 * @throws {UnusableError} where the links lead nowhere.
 */
export const databaseFileOf = async (dbUrl: string): Promise<string> => {
  const path = resolve(fileOfUrl(dbUrl));
  try {
    return await realPathOf(path);
  } catch (error) {
    const { message } = error as Error;
    throw new UnusableError(
      `${path} cannot be followed to a file (${message})`,
      "mend its links, or name another in ORCH_DB_URL",
      { cause: error },
    );
  }
};

/** The path without links; of a file that is not there yet, where it would be made. */
const realPathOf = async (path: string): Promise<string> => {
  const real = await nullAt(MISSING, realpath(path));
  if (real !== null) return real;
  const folder = await nullAt(MISSING, realpath(dirname(path)));
  // Without its folder nothing can be made or locked there, as whoever tries will say.
  if (folder === null) return path;
  const target = await nullAt([...MISSING, "EINVAL"], readlink(path));
  return target === null ? join(folder, basename(path)) : realPathOf(resolve(folder, target));
};

const MISSING = ["ENOENT", "ENOTDIR"];

const nullAt = (codes: readonly string[], path: Promise<string>): Promise<string | null> =>
  path.catch((error: NodeJS.ErrnoException) => {
    if (codes.includes(error.code ?? "")) return null;
    throw error;
  });
