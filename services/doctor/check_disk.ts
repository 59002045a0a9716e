import { stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { type DiskSpace, diskSpace, MIN_FREE_BYTES } from "@orchestrator/shared/disk_space.ts";
import { nearestFolder } from "@orchestrator/shared/usable_folder.ts";
import { foldersToCheck } from "./check_folders.ts";
import type { Check } from "./checks.ts";
import { type Finding, fail, ok, warn } from "./finding.ts";

const GIB = 1024 ** 3;

/** A few clones and builds need so much. */
const LITTLE_BYTES = 2 * GIB;
const LITTLE_INODES = 10_000;
/** For what agents need for a moment: a temporary directory on a disk of its own, as in a container, need not be large. */
const LITTLE_TEMPORARY_BYTES = 64 * 1024 ** 2;

export interface DiskView extends DiskSpace {
  /** The directories that are on it. */
  folders: readonly string[];
  /** Nothing but the temporary directory is on it. */
  onlyTemporary?: boolean;
}

/** How much space is left, for each file system once. */
export const checkDisk: Check = async ({ config }) => {
  const disks = new Map<number, DiskView>();
  for (const [, folder] of foldersToCheck(config)) {
    const nearest = await nearestFolder(folder).catch(() => null);
    // What stands in the way is told by the check of the folders.
    if (nearest === null) continue;
    const { dev } = await stat(nearest);
    const known = disks.get(dev);
    if (known !== undefined) {
      disks.set(dev, { ...known, folders: [...new Set([...known.folders, folder])] });
      continue;
    }
    disks.set(dev, { folders: [folder], ...(await diskSpace(nearest)) });
  }
  return [...disks.values()].map((disk) =>
    judgeDisk({ ...disk, onlyTemporary: disk.folders.every((folder) => folder === tmpdir()) }),
  );
};

/** What a file system's free space means for the services. */
export const judgeDisk = ({ folders, freeBytes, totalBytes, freeInodes, onlyTemporary = false }: DiskView): Finding => {
  const where = outermost(folders).join(", ");
  const found = `${gib(freeBytes)} of ${gib(totalBytes)} GiB free (${where})`;
  if (freeBytes < MIN_FREE_BYTES && !onlyTemporary) {
    return fail("disk", found, `make room: below ${gib(MIN_FREE_BYTES)} GiB no job is claimed`);
  }
  if (freeInodes === 0)
    return fail("disk", `no more files can be made (${where})`, "remove some: its inodes are used up");
  if (freeInodes !== null && freeInodes < LITTLE_INODES) {
    return warn(
      "disk",
      `only ${freeInodes} more files can be made (${where})`,
      "remove some, before its inodes are used up",
    );
  }
  return freeBytes < (onlyTemporary ? LITTLE_TEMPORARY_BYTES : LITTLE_BYTES)
    ? warn("disk", found, "make room soon: clones and builds need it")
    : ok("disk", found);
};

/** Without those that are inside another of them. */
const outermost = (folders: readonly string[]): string[] =>
  folders.filter((folder) => !folders.some((other) => folder.startsWith(`${other}/`)));

const gib = (bytes: number): string => (bytes / GIB).toFixed(bytes < 10 * GIB ? 2 : 0);
