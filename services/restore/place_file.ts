import { copyFile, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { isThere } from "@orchestrator/shared/is_there.ts";
import { makeUsable } from "@orchestrator/shared/usable_folder.ts";

/**
 * Where a file waits for the rename that puts it in place: beside it, since no rename crosses file systems. The name is always
 * the same, so that the next restore writes over what one that was killed has left there.
 */
const waitingFor = (place: string): string => `${place}.restoring`;

/**
 * Brings a file beside its place and to the disk. All that can fail for want of room or of rights fails here, before anything
 * is in place.
 */
export const bringBeside = async (from: string, place: string): Promise<void> => {
  const waiting = waitingFor(place);
  await rename(from, waiting).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== "EXDEV") throw error;
    // A file that is there already would keep its own permissions.
    await rm(waiting, { force: true });
    await copyFile(from, waiting);
  });
  const file = await open(waiting, "r");
  await file.sync().finally(() => file.close());
};

/** Puts what was brought beside a place into it. */
export const putInPlace = async (place: string): Promise<void> => {
  await rename(waitingFor(place), place);
  const folder = await open(dirname(place));
  await folder.sync().finally(() => folder.close());
};

/** Removes what waits beside a place, where something does. */
export const takeAway = (place: string): Promise<void> => rm(waitingFor(place), { force: true });

/**
 * Puts a file in place, whole or not at all, and makes the folder for it where that is missing.
 * @param setting the variable that names the folder, for the message.
 * @returns false where there is no such file, or one in its place already, which stays.
 */
export const placeIfMissing = async (setting: string, from: string, place: string): Promise<boolean> => {
  if (!(await isThere(from)) || (await isThere(place))) return false;
  await makeUsable(setting, dirname(place));
  try {
    await bringBeside(from, place);
    await putInPlace(place);
  } finally {
    await takeAway(place);
  }
  return true;
};
