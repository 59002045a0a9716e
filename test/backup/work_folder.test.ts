import { chmod, chown, mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { makeLockedFolder } from "@orchestrator/shared/storage/lock_folder.ts";
import { expect, onTestFinished, test } from "vitest";
import { inWorkFolder } from "../../services/backup/work_folder.ts";
import { tempFolder } from "../helpers/temp_folder.ts";

const SOMEBODY = 65534;

/** A folder of a user to whom permissions mean something, as whom the test goes on. */
const folderOfSomebody = async (): Promise<string> => {
  const folder = await tempFolder();
  if (process.geteuid!() === 0) {
    await chown(folder, SOMEBODY, SOMEBODY);
    process.seteuid!(SOMEBODY);
    onTestFinished(() => process.seteuid!(0));
  }
  return folder;
};

/** What a backup that somebody has packed by hand may hold. */
const fillUnwritably = async (folder: string): Promise<void> => {
  await mkdir(join(folder, "mirrors"));
  await writeFile(join(folder, "mirrors", "shop.bundle"), "");
  await chmod(join(folder, "mirrors"), 0o500);
};

test("what is in a folder that nobody may write to is removed like all else", async () => {
  const parent = await folderOfSomebody();
  await inWorkFolder({ parent, kind: "restore", say: () => {} }, fillUnwritably);
  expect(await readdir(parent)).toEqual([]);
});

test("so it is where its process was killed", async () => {
  const parent = await folderOfSomebody();
  const left = join(parent, "restore-AbCd12");
  const { lock } = await makeLockedFolder(parent, async () => {
    await mkdir(join(left, "content"), { recursive: true });
    return left;
  });
  lock.release();
  await fillUnwritably(join(left, "content"));
  const said: string[] = [];
  await inWorkFolder({ parent, kind: "backup", say: (line) => said.push(line) }, async () => {});
  expect(said).toEqual([`removed ${left}, which was left when its process was killed`]);
  expect(await readdir(parent)).toEqual([]);
});
