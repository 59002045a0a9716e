import { type DiskSpace, diskSpace } from "@orchestrator/shared/disk_space.ts";
import type { StepVerdict } from "./verdict.ts";

/** With less room than this no build comes to its end: what fails then is laid to the disk. */
export const FULL_BYTES = 16 * 1024 * 1024;

/** The same for files that may still be made. */
export const FULL_INODES = 100;

/** A folder that steps write to, and what its disk has room for. */
export interface FolderSpace {
  folder: string;
  space: DiskSpace;
}

/**
 * How the system says that a path leads to no folder that it may look at. A step may have removed it, or the plan has named a
 * TMPDIR that never was: that says nothing about a disk, and must not take a verdict back.
 */
const NO_FOLDER = new Set(["ENOENT", "ENOTDIR", "EACCES", "ELOOP", "ENAMETOOLONG"]);

/**
 * What the disks of these folders have room for now; those without a folder are left out.
 * @throws the system's error where a disk does not answer.
 */
export const spaceOf = async (folders: readonly string[]): Promise<FolderSpace[]> => {
  const spaces = [...new Set(folders)].map(async (folder) => {
    try {
      return [{ folder, space: await diskSpace(folder) }];
    } catch (error) {
      if (!NO_FOLDER.has((error as NodeJS.ErrnoException).code ?? "")) throw error;
      return [];
    }
  });
  return (await Promise.all(spaces)).flat();
};

/** Which folder's disk is full, as half a sentence; null where none is. */
export const describeFullDisk = (spaces: readonly FolderSpace[]): string | null => {
  for (const { folder, space } of spaces) {
    const { freeBytes, totalBytes, freeInodes } = space;
    // What is no disk at all has no room either.
    if (totalBytes > 0 && freeBytes < FULL_BYTES) {
      return `the disk of ${folder} is full (${Math.floor(freeBytes / 1024)} KiB free): make room there`;
    }
    if (freeInodes !== null && freeInodes < FULL_INODES) {
      return `the disk of ${folder} takes hardly any more files (${freeInodes}): remove some there`;
    }
  }
  return null;
};

/**
 * The verdict on a step that has failed, once it is known what room its disks have left: what fails on a full disk says
 * nothing about the work. A step that clears away what it has written before it exits, as some builds do, leaves a disk that
 * has room again; it cannot be told from one that failed by itself.
 */
export const judgeOnDisks = (
  failure: Extract<StepVerdict, { verdict: "failed" }>,
  spaces: readonly FolderSpace[],
): StepVerdict => {
  const full = describeFullDisk(spaces);
  return full === null
    ? failure
    : { verdict: "tool_error", class: "no_space", reason: `${failure.reason}, and ${full}` };
};
