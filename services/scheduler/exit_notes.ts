import { closeSync, constants, lstatSync, openSync, readFileSync, unlinkSync, writeSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { removeTree } from "@orchestrator/shared/remove_tree.ts";
import { readSmallFile, withDiskErrors } from "./git/careful_files.ts";

// Where the keeper of a run's agent notes that it exited 0: a file of the run's number. It stands in for the record in the
// database only where the scheduler was killed before it could make that; then the file is all that there is.
//
// The scheduler makes it before the agent's start, with one newline in it, so that it has its inode and its block: a disk that
// is full by the time of the exit has room for the few bytes that are still to come. The keeper appends `0`, the scheduler
// appends `told` before it tells the agent to end, each in one write; what stands first decides, whoever is killed then.

const MADE = "\n";
const EXITED = "0\n";
const TOLD = "told\n";

/** More than can come together in a note. */
const MAX_NOTE_BYTES = 64;

/** An agent has its scheduler's account: what it has put in the place of its note must neither be followed nor waited for. */
const APPENDING = constants.O_WRONLY | constants.O_APPEND | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** What can be met where an agent has changed its note, or the way to it, while it was being looked at. */
const CHANGED = new Set(["ENOENT", "ENOTDIR", "ELOOP", "ENXIO", "EACCES", "EPERM"]);

const folderOf = (dataDir: string): string => join(dataDir, "exits");

/**
 * Notes stand in a folder of the machine's boot: one from before a power cut says that an agent had finished, while the work
 * that it speaks of may not have come to the disk. Such a note is not looked at, and the agent runs again.
 */
export const exitNotePath = (dataDir: string, runId: number): string =>
  join(folderOf(dataDir), readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim(), String(runId));

/**
 * Makes a run's note, in which nobody has written yet. What stands in its place is taken away: a database that was put back
 * gives numbers a second time. Throws a `ToolError` where the disk does not let it.
 */
export const makeExitNote = (path: string): Promise<void> =>
  withDiskErrors("making the note of an exit", async () => {
    await mkdir(dirname(path), { recursive: true });
    await removeTree(path);
    await writeFile(path, MADE, { flag: "wx" });
  });

/**
 * From here on an exit 0 does not count any more: the agent is being told to end, and a 0 then is its good manners, not its
 * work's end. Either this comes first or the note does, so whatever is killed next, the two are not confused.
 *
 * A note that cannot be written is taken away, which needs neither room nor an open file; one that a keeper makes anew does
 * not begin as the scheduler's do.
 * @throws what kept it from being written. The agent is to be told to end all the same, and the caller to remember it.
 */
export const refuseExitNote = (path: string): void => {
  try {
    if (!isWrittenIn(path)) append(path, TOLD);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return;
    takeAway(path, error);
    throw error;
  }
};

const isWrittenIn = (path: string): boolean => {
  const note = lstatSync(path);
  return note.isFile() && note.size > MADE.length;
};

const append = (path: string, text: string): void => {
  const file = openSync(path, APPENDING);
  try {
    writeSync(file, text);
  } finally {
    closeSync(file);
  }
};

const takeAway = (path: string, because: unknown): void => {
  try {
    unlinkSync(path);
  } catch (error) {
    throw new AggregateError([because, error], `${because}; ${error}`);
  }
};

/** Whether a note says that its agent exited 0 before anybody told it to end. */
export const saysExited = (note: string): boolean => note.startsWith(`${MADE}${EXITED}`);

/** The same for the note at `path`; what is no note says nothing. */
export const hasExitNote = async (path: string): Promise<boolean> => {
  try {
    const note = await readSmallFile(path, MAX_NOTE_BYTES);
    return note.kind === "read" && saysExited(note.bytes.toString("utf8"));
  } catch (error) {
    if (CHANGED.has(String((error as NodeJS.ErrnoException).code))) return false;
    throw error;
  }
};

/** The run's exit stands in the database. */
export const removeExitNote = (path: string): Promise<void> => removeTree(path);

/** At the start of a scheduler, once what the notes say stands in the database. */
export const removeExitNotes = (dataDir: string): Promise<void> => removeTree(folderOf(dataDir));
