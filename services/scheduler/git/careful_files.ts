import { constants } from "node:fs";
import { lstat, open } from "node:fs/promises";
import { join } from "node:path";
import { fileSystemError } from "./file_system_error.ts";

// Looking at files that an agent may have arranged: no link is ever followed.

export type FileKind = "absent" | "file" | "directory" | "link" | "other";

const errorCode = (error: unknown): string | undefined => (error as NodeJS.ErrnoException).code;

/** What stands at `path` itself. A path that leads through something else than directories is `absent`. */
export const kindOf = async (path: string): Promise<FileKind> => {
  try {
    const stats = await lstat(path);
    if (stats.isFile()) return "file";
    if (stats.isDirectory()) return "directory";
    return stats.isSymbolicLink() ? "link" : "other";
  } catch (error) {
    if (errorCode(error) === "ENOENT" || errorCode(error) === "ENOTDIR") return "absent";
    throw error;
  }
};

/**
 * What stands at `path` (with forward slashes) below `root`, where all that leads to it are real directories; `detour`
 * names the first part of the way that is not one.
 */
export const kindBelow = async (root: string, path: string): Promise<{ kind: FileKind; detour: string | null }> => {
  const parts = path.split("/");
  for (let n = 1; n < parts.length; n++) {
    const part = parts.slice(0, n).join("/");
    const kind = await kindOf(join(root, part));
    if (kind !== "directory") return { kind: "absent", detour: kind === "absent" ? null : part };
  }
  return { kind: await kindOf(join(root, path)), detour: null };
};

export type SmallFile = { kind: "read"; bytes: Buffer } | { kind: "absent" } | { kind: "unusable"; reason: string };

/** Reads a regular file of at most `maxBytes`; anything else at that place is said, not followed and not waited for. */
export const readSmallFile = async (path: string, maxBytes: number): Promise<SmallFile> => {
  const kind = await kindOf(path);
  if (kind === "absent") return { kind: "absent" };
  if (kind !== "file") return { kind: "unusable", reason: `is a ${kind === "other" ? "special file" : kind}` };
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const { size } = await file.stat();
    if (size > maxBytes)
      return { kind: "unusable", reason: `has ${size} bytes, more than the ${maxBytes} that are read` };
    return { kind: "read", bytes: await file.readFile() };
  } finally {
    await file.close();
  }
};

/**
 * Runs `work`; an error of the operating system that it meets outside of git becomes a `ToolError`: `no_space`, as git's own
 * would be, or `file_system`.
 */
export const withDiskErrors = async <T>(what: string, work: () => Promise<T>): Promise<T> => {
  try {
    return await work();
  } catch (error) {
    throw fileSystemError(error, what) ?? error;
  }
};
