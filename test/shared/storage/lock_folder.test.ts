import { mkdir, mkdtemp, readdir, rmdir } from "node:fs/promises";
import { join } from "node:path";
import { hasLock, lockFolder, makeLockedFolder } from "@orchestrator/shared/storage/lock_folder.ts";
import { expect, onTestFinished, test } from "vitest";
import { tempFolder } from "../../helpers/temp_folder.ts";

/** Makes folders in `parent`, and tells how many. Something happens to each of the first so many before it is locked. */
const folders = (parent: string, first: number, happens: (folder: string) => Promise<unknown>) => {
  const made: string[] = [];
  const make = async (): Promise<string> => {
    const folder = await mkdtemp(join(parent, "folder-"));
    if (made.push(folder) <= first) await happens(folder);
    return folder;
  };
  return { make, made };
};

test("a folder is locked for as long as its lock is held, for this process too", async () => {
  const parent = await tempFolder();
  const { make, made } = folders(parent, 0, rmdir);
  const { folder, lock } = await makeLockedFolder(parent, make);
  expect(made).toEqual([folder]);
  expect(await hasLock(folder)).toBe(true);
  expect(await lockFolder(folder)).toBe(null);
  lock.release();
  const taken = await lockFolder(folder);
  expect(await taken?.findFault()).toBe(null);
  taken?.release();
});

test("a folder that was never locked can be, and one that has gone is no fault", async () => {
  const folder = await tempFolder();
  expect(await hasLock(folder)).toBe(false);
  expect(await readdir(folder)).toEqual([]);
  const lock = await lockFolder(folder);
  expect(await lock?.findFault()).toBe(null);
  lock?.release();
  expect(await lockFolder(join(folder, "gone"))).toBe(null);
});

test("where folders go away before they are locked, or are in the way of it, another is made", async () => {
  for (const happens of [rmdir, (folder: string) => mkdir(join(folder, "lock.db"))]) {
    const parent = await tempFolder();
    const { make, made } = folders(parent, 2, happens);
    const { folder, lock } = await makeLockedFolder(parent, make);
    onTestFinished(() => lock.release());
    expect(made.indexOf(folder)).toBe(2);
    expect(await readdir(parent)).toEqual([made[2]!.slice(parent.length + 1)]);
  }
});

test.each([
  ["no folder stays", rmdir, /^no folder in .* stays: end what is clearing it$/],
  [
    "no folder can be locked",
    (folder: string) => mkdir(join(folder, "lock.db")),
    /unable to open connection to local database .*lock\.db/i,
  ],
])("where %s that is said, and nothing is left", async (_, happens, said) => {
  const parent = await tempFolder();
  const { make } = folders(parent, Number.POSITIVE_INFINITY, happens);
  await expect(makeLockedFolder(parent, make)).rejects.toThrow(said);
  expect(await readdir(parent)).toEqual([]);
});
