import { statfs } from "node:fs/promises";

/** Below this much free space nothing new is claimed: a run that fills the disk takes the others with it. */
export const MIN_FREE_BYTES = 256 * 1024 * 1024;

/** What a file system has room for. */
export interface DiskSpace {
  /** What an unprivileged user may still write. */
  freeBytes: number;
  /** 0 for what is no disk at all, such as `/proc`. */
  totalBytes: number;
  /** How many files may still be made; null where that is not counted. */
  freeInodes: number | null;
}

/** What the file system that holds `folder` has room for. */
export const diskSpace = async (folder: string): Promise<DiskSpace> => {
  const { bavail, blocks, bsize, ffree, files } = await statfs(folder);
  return { freeBytes: bavail * bsize, totalBytes: blocks * bsize, freeInodes: files > 0 ? ffree : null };
};

/** How many bytes an unprivileged user may still write in the file system that holds `folder`. */
export const freeBytes = async (folder: string): Promise<number> => (await diskSpace(folder)).freeBytes;

/** Whether an error's code is the operating system's word for a disk, or a quota on it, that is full. */
export const isDiskFull = (code: unknown): boolean => code === "ENOSPC" || code === "EDQUOT";
