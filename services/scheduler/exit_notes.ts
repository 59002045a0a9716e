import { mkdirSync, readFileSync } from "node:fs";
import { lstat, mkdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { withDiskErrors } from "./git/careful_files.ts";

// Where the keeper of a run's agent notes that it exited 0: a file of the run's number. It stands in for the record in the
// database only where the scheduler was killed before it could make that; then the file is all that there is.

const folderOf = (dataDir: string): string => join(dataDir, "exits");

/**
 * Notes stand in a folder of the machine's boot: one from before a power cut says that an agent had finished, while the work
 * that it speaks of may not have come to the disk. Such a note is not looked at, and the agent runs again.
 */
export const exitNotePath = (dataDir: string, runId: number): string =>
  join(folderOf(dataDir), readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim(), String(runId));

/**
 * Makes the place for a run's note, with nothing in it: a database that was put back gives numbers a second time. Throws a
 * `ToolError` where the disk does not let it.
 */
export const clearExitNote = (path: string): Promise<void> =>
  withDiskErrors("making room for the note of an exit", async () => {
    await mkdir(dirname(path), { recursive: true });
    await rm(path, { recursive: true, force: true });
  });

/**
 * From here on an exit 0 is not noted any more: the agent is being told to end, and a 0 then is its good manners, not its
 * work's end. Either this comes first or the note does, so whatever is killed next, the two are not confused.
 */
export const refuseExitNote = (path: string): void => {
  try {
    mkdirSync(path);
  } catch (error) {
    // ENOENT: there is no place for a note either.
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "EEXIST" && code !== "ENOENT") throw error;
  }
};

/** Whether the run's agent exited 0 before anybody told it to end. */
export const hasExitNote = async (path: string): Promise<boolean> =>
  lstat(path).then(
    (entry) => entry.isFile(),
    (error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT" || error.code === "ENOTDIR") return false;
      throw error;
    },
  );

/** The run's exit stands in the database. */
export const removeExitNote = (path: string): Promise<void> => rm(path, { recursive: true, force: true });

/** At the start of a scheduler, once what the notes say stands in the database. */
export const removeExitNotes = (dataDir: string): Promise<void> =>
  rm(folderOf(dataDir), { recursive: true, force: true });
