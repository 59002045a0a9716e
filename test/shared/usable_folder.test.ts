import { mkdir, readdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { makeUsable, unusableFolder } from "@orchestrator/shared/usable_folder.ts";
import { describe, expect, test } from "vitest";
import { tempFolder } from "../helpers/temp_folder.ts";

describe("makeUsable", () => {
  test("makes the folder and those above it, and leaves nothing in it", async () => {
    const folder = await tempFolder();
    await makeUsable("X", join(folder, "a", "b", "c"));
    expect(await readdir(join(folder, "a", "b", "c"))).toEqual([]);
    await makeUsable("X", join(folder, "a", "b", "c"));
  });

  test("goes through a link to a folder", async () => {
    const folder = await tempFolder();
    await mkdir(join(folder, "real"));
    await symlink("real", join(folder, "link"));
    await makeUsable("X", join(folder, "link", "below"));
    expect(await readdir(join(folder, "real"))).toEqual(["below"]);
  });

  test.each([
    ["a file in its place", "file", "file"],
    ["a file above it", "file/below/it", "file"],
    ["a link that leads nowhere", "link", "link"],
    ["a link that leads nowhere above it", "link/below", "link"],
    ["a link to itself", "loop/below", null],
  ])("says what stands in the way: %s", async (_, path, obstacle) => {
    const folder = await tempFolder();
    await writeFile(join(folder, "file"), "");
    await symlink("nowhere/at/all", join(folder, "link"));
    await symlink("loop", join(folder, "loop"));
    await expect(makeUsable("ORCH_X", join(folder, path))).rejects.toThrow(
      obstacle === null
        ? `ORCH_X: ${folder}/${path} cannot be used (ELOOP: `
        : `ORCH_X: ${folder}/${obstacle} is not a directory: move away what stands there, or name another path`,
    );
  });

  test("gives up where nothing can be made although all above is there", async () => {
    await expect(makeUsable("ORCH_X", "/proc/orchestrator/below")).rejects.toThrow(
      "ORCH_X: /proc/orchestrator/below cannot be used (ENOENT: ",
    );
  });
});

test.each([
  ["EROFS", "is on a read-only file system: mount it for writing, or name another path"],
  ["EPERM", `cannot be written by user ${process.getuid!()} (EPERM): give it to that user, or name another path`],
])("%s is explained", async (code, text) => {
  const folder = await tempFolder();
  const { message } = await unusableFolder("X", folder, Object.assign(new Error("no"), { code }));
  expect(message).toBe(`X: ${folder} ${text}`);
});

test.each(["ENOSPC", "EDQUOT"])("%s is a matter of space", async (code) => {
  const folder = await tempFolder();
  const error = Object.assign(new Error("no"), { code });
  expect((await unusableFolder("X", folder, error)).message).toBe(
    `X: there is no space left for ${folder} (${code}): make room, or name another path`,
  );
});
