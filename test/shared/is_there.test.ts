import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isThere } from "@orchestrator/shared/is_there.ts";
import { expect, test } from "vitest";
import { tempFolder } from "../helpers/temp_folder.ts";

const makeFolder = async (): Promise<string> => {
  const folder = await tempFolder();
  await writeFile(join(folder, "file"), "");
  await mkdir(join(folder, "folder"));
  await symlink("nowhere", join(folder, "link"));
  await symlink("loop", join(folder, "loop"));
  return folder;
};

test.each([
  ["a file", "file", true],
  ["a folder", "folder", true],
  ["a link that leads nowhere", "link", true],
  ["a link to itself", "loop", true],
  ["nothing", "nothing", false],
  ["what would be in a folder that is not there", "nothing/below", false],
  ["what would be in a file", "file/below", false],
  ["what would be behind a link that leads nowhere", "link/below", false],
])("%s", async (_, path, there) => {
  expect(await isThere(join(await makeFolder(), path))).toBe(there);
});

test.each([
  ["behind a link to itself", "loop/below", "ELOOP"],
  ["by a name that is too long", "x".repeat(300), "ENAMETOOLONG"],
])("what cannot be looked for is not absent: %s", async (_, path, code) => {
  await expect(isThere(join(await makeFolder(), path))).rejects.toMatchObject({ code });
});
