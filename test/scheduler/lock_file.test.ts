import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { lockFileOf } from "../../services/scheduler/lock_file.ts";
import { tempFolder } from "../helpers/temp_folder.ts";

/** `real/db`, and links that lead there; `made` says whether the database is there already. */
const place = async (made: boolean): Promise<string> => {
  const folder = await tempFolder();
  for (const name of ["real", "links"]) await mkdir(join(folder, name));
  if (made) await writeFile(join(folder, "real", "db"), "");
  await symlink(join(folder, "real", "db"), join(folder, "links", "db"));
  await symlink("../real/db", join(folder, "links", "relative"));
  await symlink("db", join(folder, "links", "twice"));
  await symlink("real", join(folder, "other"));
  await symlink("links", join(folder, "around"));
  return folder;
};

const NAMES = [
  "real/db",
  "links/db",
  "links/relative",
  "links/twice",
  "other/db",
  "around/relative",
  "links/../real/db",
];

for (const made of [true, false]) {
  test.each(NAMES)(
    `a database ${made ? "" : "that is not made yet "}has one lock, by the name %s as by any`,
    async (name) => {
      const folder = await place(made);
      expect(await lockFileOf(`file:${join(folder, name)}`)).toBe(join(folder, "real", "scheduler.lock.db"));
    },
  );
}

test("where the folder is not there either, the lock's place is said all the same", async () => {
  const folder = await tempFolder();
  expect(await lockFileOf(`file:${folder}/missing/db`)).toBe(`${folder}/missing/scheduler.lock.db`);
});

test("links that lead in a circle are told of, with what to do", async () => {
  const folder = await tempFolder();
  await symlink("b", join(folder, "a"));
  await symlink("a", join(folder, "b"));
  await expect(lockFileOf(`file:${folder}/a`)).rejects.toMatchObject({
    code: "unusable",
    found: expect.stringContaining(`${folder}/a cannot be followed to a file (ELOOP`),
  });
});
