import { lstat, mkdir, mkdtemp, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { openReadOnly } from "@orchestrator/shared/storage/open.ts";
import { expect, onTestFinished, test } from "vitest";
import { git } from "../helpers/git.ts";
import { tempFolder } from "../helpers/temp_folder.ts";
import { makeBackup, type Places, placesIn, runTool, workFoldersIn } from "./tools.ts";

/** A folder in memory: on another file system than the folder for temporary files. */
const folderInMemory = async (): Promise<string> => {
  const folder = await mkdtemp("/dev/shm/orchestrator-test-");
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
};

/** Fails where not all of the backup is in its place, or anything else is left there. */
const expectAllInPlace = async (from: Places, there: Places, database: string): Promise<void> => {
  const reader = await openReadOnly(`file:${database}`, null);
  expect(await reader.query("SELECT work_item_id FROM tasks")).toEqual([{ workItemId: "ORCH-1" }]);
  await reader.close();
  const head = (places: Places) => git(join(places.reposDir, "shop.git"), "rev-parse", "refs/heads/main");
  expect(await head(there)).toBe(await head(from));
  expect(await readFile(there.configPath, "utf8")).toBe("limits: { total: 4 }\n");
  expect(await readFile(join(there.dataDir, "secrets/api.token"), "utf8")).toBe("a-token\n");
  expect((await stat(join(there.dataDir, "secrets/api.token"))).mode & 0o777).toBe(0o600);
  for (const folder of [
    there.dataDir,
    join(there.dataDir, "secrets"),
    join(there.configPath, ".."),
    join(database, ".."),
  ])
    expect(await workFoldersIn(folder), folder).toEqual([]);
};

test("where ORCH_CONFIG names the file in the data directory, it is put back with all the rest", async () => {
  const { from, tar } = await makeBackup();
  const there = placesIn(await tempFolder());
  const { code, said } = await runTool("restore", tar, there);
  expect([code, said]).toEqual([0, expect.stringContaining(`restored ${there.configPath}\n`)]);
  await expectAllInPlace(from, there, join(there.dataDir, "orchestrator.db"));
});

test("a configuration that is there stays, and one that is wrong is not passed over", async () => {
  const { tar } = await makeBackup();
  const there = placesIn(await tempFolder());
  await mkdir(there.dataDir);
  await writeFile(there.configPath, "limit: 4\n");
  const { code, said } = await runTool("restore", tar, there);
  expect([code, said]).toEqual([78, expect.stringContaining(`${there.configPath}:1: limit: unknown key`)]);
  await writeFile(there.configPath, "limits: { total: 9 }\n");
  expect(await runTool("restore", tar, there)).toMatchObject({ code: 0 });
  expect(await readFile(there.configPath, "utf8")).toBe("limits: { total: 9 }\n");
});

test("database, mirrors and configuration are put on other file systems than the data directory's", async () => {
  const { from, tar } = await makeBackup();
  const other = await folderInMemory();
  const there: Places = {
    dataDir: join(await tempFolder(), "data"),
    reposDir: join(other, "mirrors"),
    configPath: join(other, "conf/orchestrator.yaml"),
    dbUrl: `file:${join(other, "db/orchestrator.db")}`,
  };
  await mkdir(there.dataDir);
  expect((await stat(other)).dev).not.toBe((await stat(there.dataDir)).dev);
  // As a restore that was killed leaves it.
  await mkdir(join(other, "db"));
  await writeFile(join(other, "db/orchestrator.db.restoring"), "half a database");
  const { code, said } = await runTool("restore", tar, there);
  expect([code, said]).toEqual([0, expect.stringContaining(`restored ${join(other, "db/orchestrator.db")}\n`)]);
  await expectAllInPlace(from, there, join(other, "db/orchestrator.db"));
});

test("a database that is a link is restored to where it leads", async () => {
  const { from, tar } = await makeBackup();
  const other = await folderInMemory();
  const there = placesIn(await tempFolder());
  await mkdir(there.dataDir);
  await symlink(join(other, "real.db"), join(there.dataDir, "orchestrator.db"));
  expect(await runTool("restore", tar, there)).toMatchObject({ code: 0 });
  expect((await lstat(join(there.dataDir, "orchestrator.db"))).isSymbolicLink()).toBe(true);
  await expectAllInPlace(from, there, join(other, "real.db"));
  const again = await runTool("restore", tar, there);
  expect(again).toMatchObject({ code: 73 });
  expect(again.said).toContain(`there is a database at ${join(other, "real.db")}: move it away`);
});
