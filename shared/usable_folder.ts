import { randomUUID } from "node:crypto";
import { mkdir, open, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { isThere } from "./is_there.ts";
import { UnusableError } from "./unusable.ts";

/**
 * Makes a folder, and those above it, where it is missing, and sees that files can be made in it: what cannot be written is
 * to end a start, not the first run that needs it.
 * @param setting the variable that names it, for the message.
 * @throws {UnusableError}
 */
export const makeUsable = async (setting: string, folder: string): Promise<void> => {
  try {
    await makeAll(folder);
    await probe(folder);
  } catch (error) {
    throw await unusableFolder(setting, folder, error);
  }
};

/**
 * Makes a folder and those above it. Not by `recursive`: below `/proc`, where nothing can be made although all is there, Node
 * goes on trying for ever.
 */
const makeAll = async (folder: string): Promise<void> => {
  if (await makeOne(folder)) return;
  await makeAll(dirname(folder));
  if (!(await makeOne(folder))) await mkdir(folder);
};

/** @returns false where the folder above is missing. */
const makeOne = async (folder: string): Promise<boolean> => {
  try {
    await mkdir(folder);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return false;
    if (code !== "EEXIST" && !(await isFolder(folder))) throw error;
  }
  return true;
};

const isFolder = (path: string): Promise<boolean> =>
  stat(path).then(
    (entry) => entry.isDirectory(),
    () => false,
  );

/** @throws the system's error where no file can be made in the folder. */
export const probe = async (folder: string): Promise<void> => {
  const file = join(folder, `.probe-${randomUUID()}`);
  await (await open(file, "wx", 0o600)).close();
  await rm(file);
};

/** An error met in a folder as one that says what it means and what to do about it. */
export const unusableFolder = async (setting: string, folder: string, error: unknown): Promise<UnusableError> => {
  const unusable = (found: string, todo: string): UnusableError =>
    new UnusableError(`${setting}: ${found}`, `${todo}, or name another path`, { cause: error });
  const obstacle = await findObstacle(folder);
  if (obstacle !== null) return unusable(`${obstacle} is not a directory`, "move away what stands there");
  const { code, message } = error as NodeJS.ErrnoException;
  switch (code) {
    case "EACCES":
    case "EPERM": {
      const user = process.getuid?.() ?? "unknown";
      return unusable(`${folder} cannot be written by user ${user} (${code})`, "give it to that user");
    }
    case "EROFS":
      return unusable(`${folder} is on a read-only file system`, "mount it for writing");
    case "ENOSPC":
    case "EDQUOT":
      return unusable(`there is no space left for ${folder} (${code})`, "make room");
    default:
      return unusable(`${folder} cannot be used (${message})`, "make it by hand");
  }
};

/**
 * The folder itself or, where it is missing, the nearest one above it that is there.
 * @throws the system's error where something else stands in the way.
 */
export const nearestFolder = async (folder: string): Promise<string> => {
  for (let path = folder; ; path = dirname(path)) {
    try {
      if ((await stat(path)).isDirectory()) return path;
      throw Object.assign(new Error(`${path} is not a directory`), { code: "ENOTDIR" });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT" || (await isThere(path))) throw error;
    }
  }
};

/** The folder itself, or the nearest path above it that exists, where that is no directory; null where it is one. */
const findObstacle = async (folder: string): Promise<string | null> => {
  for (let path = folder; ; path = dirname(path)) {
    try {
      return (await stat(path)).isDirectory() ? null : path;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code !== "ENOENT" && code !== "ENOTDIR") return null;
      if (await isThere(path)) return path;
    }
  }
};
