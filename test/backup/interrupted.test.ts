import { once } from "node:events";
import { createWriteStream, existsSync } from "node:fs";
import { cp, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { createGit } from "@orchestrator/shared/git/run_git.ts";
import { expect, test } from "vitest";
import { gatherBackup } from "../../services/backup/gather_backup.ts";
import { restoreBackup } from "../../services/restore/restore_backup.ts";
import { tempFolder } from "../helpers/temp_folder.ts";
import {
  makeBackup,
  makePlaces,
  type Places,
  placesIn,
  type RunningTool,
  runTool,
  startTool,
  workFoldersIn,
} from "./tools.ts";

const until = (look: () => Promise<boolean>) => expect.poll(look, { timeout: 30_000 }).toBe(true);

/** What stands in the one work folder that there is, as soon as there is anything. */
const isUnpacked = async (dataDir: string): Promise<boolean> => {
  const [folder] = await workFoldersIn(dataDir);
  if (folder === undefined) return false;
  return (await readdir(join(dataDir, folder, "content")).catch(() => [])).length > 0;
};

/** A restore that has been given a part of a backup and waits for the rest, which `goOn` gives it. */
const restoreHalf = async (there: Places, tar: string): Promise<RunningTool & { goOn: () => void }> => {
  const bytes = await readFile(tar);
  await mkdir(there.dataDir);
  const restore = startTool("restore", there);
  const stdin = restore.child.stdin!;
  stdin.on("error", () => {});
  stdin.write(bytes.subarray(0, 40_000));
  await until(() => isUnpacked(there.dataDir));
  return { ...restore, goOn: () => void stdin.end(bytes.subarray(40_000)) };
};

/** A backup that is at work for as long as nobody reads what it writes: it is more than a pipe holds. */
const backUpUnread = async (from: Places): Promise<RunningTool> => {
  const backup = startTool("backup", from);
  await until(() => isUnpacked(from.dataDir));
  return backup;
};

const placesWithMuch = async (): Promise<Places> => {
  const from = await makePlaces();
  await writeFile(join(from.dataDir, "secrets/big.token"), Buffer.alloc(4 * 1024 * 1024, "x"));
  return from;
};

test.each([
  ["SIGTERM", 143],
  ["SIGINT", 130],
] as const)(
  "a restore that gets %s leaves nothing behind, says so, and can be begun again",
  async (signal, exitCode) => {
    const { tar } = await makeBackup();
    const there = placesIn(await tempFolder());
    const { child, ended } = await restoreHalf(there, tar);
    process.kill(child.pid!, signal);
    const { code, said } = await ended;
    expect([code, said]).toEqual([
      exitCode,
      expect.stringContaining(`interrupted (${signal}): no database was put in`),
    ]);
    expect(await readdir(there.dataDir)).toEqual(["scheduler.lock.db"]);
    expect(await runTool("restore", tar, there)).toMatchObject({ code: 0 });
  },
);

test("a backup that gets a signal while nobody reads it leaves nothing behind, and says that it is none", async () => {
  const from = await placesWithMuch();
  const { child, ended } = await backUpUnread(from);
  process.kill(child.pid!, "SIGTERM");
  await once(child, "exit");
  child.stdout!.resume();
  const { code, said } = await ended;
  expect([code, said]).toEqual([143, expect.stringContaining("interrupted (SIGTERM): what was written is no backup")]);
  expect(await workFoldersIn(from.dataDir)).toEqual([]);
});

test("a restore that is interrupted between two mirrors goes no further, and takes the database away again", async () => {
  const from = await makePlaces(["a", "b"]);
  const there = placesIn(await tempFolder());
  const git = createGit({ instanceId: "", parentEnv: { PATH: process.env.PATH ?? "" }, networkConfig: null });
  const stopping = new AbortController();
  const kept = join(await tempFolder(), "kept");
  await gatherBackup({ config: from, git, say: () => {} }, (folder) => cp(folder, kept, { recursive: true }));
  const said: string[] = [];
  let waiting = false;
  const say = (line: string) => {
    said.push(line);
    // Before anything is in place, all that the database needs is beside its own.
    waiting ||= existsSync(join(there.dataDir, "orchestrator.db.restoring"));
    if (line.endsWith("a.git")) stopping.abort(new Error("enough"));
  };
  const restoring = restoreBackup({ config: there, git, say, signal: stopping.signal }, (folder) =>
    cp(kept, folder, { recursive: true }),
  );
  await expect(restoring).rejects.toThrow("enough");
  expect(waiting).toBe(true);
  expect(said).toEqual([`restored ${join(there.reposDir, "a.git")}`]);
  expect(await readdir(there.reposDir)).toEqual(["a.git"]);
  expect(await readdir(there.dataDir)).toEqual(["scheduler.lock.db"]);
});

test("what a restore that was killed has left is removed by the next one", async () => {
  const { tar } = await makeBackup();
  const there = placesIn(await tempFolder());
  const { child, ended } = await restoreHalf(there, tar);
  process.kill(child.pid!, "SIGKILL");
  child.stdin!.destroy();
  await ended;
  const [left] = await workFoldersIn(there.dataDir);
  expect(left).toMatch(/^restore-/);
  // Of somebody else, by a name that could be one of these.
  await mkdir(join(there.dataDir, "backup-latest/mine"), { recursive: true });
  const { code, said } = await runTool("restore", tar, there);
  expect([code, said]).toEqual([0, expect.stringContaining(`removed ${join(there.dataDir, left!)}, which was left`)]);
  expect(await workFoldersIn(there.dataDir)).toEqual(["backup-latest"]);
  expect(await readdir(join(there.dataDir, "backup-latest"))).toEqual(["mine"]);
});

test("before a backup is unpacked there is room again where a killed restore had left a database", async () => {
  const there = placesIn(await tempFolder());
  await mkdir(there.dataDir);
  const left = join(there.dataDir, "orchestrator.db.restoring");
  await writeFile(left, "a database");
  const git = createGit({ instanceId: "", parentEnv: { PATH: process.env.PATH ?? "" }, networkConfig: null });
  const { signal } = new AbortController();
  let found: boolean | null = null;
  const restoring = restoreBackup({ config: there, git, say: () => {}, signal }, async () => {
    found = existsSync(left);
    throw new Error("enough");
  });
  await expect(restoring).rejects.toThrow("enough");
  expect(found).toBe(false);
});

test("what a backup that was killed has left is removed by the next one", async () => {
  const from = await placesWithMuch();
  const { child, ended } = await backUpUnread(from);
  process.kill(child.pid!, "SIGKILL");
  child.stdout!.destroy();
  await ended;
  expect(await workFoldersIn(from.dataDir)).toHaveLength(1);
  expect(await runTool("backup", join(await tempFolder(), "backup.tar"), from)).toMatchObject({ code: 0 });
  expect(await workFoldersIn(from.dataDir)).toEqual([]);
});

test("what a backup or a restore that is at work needs is left alone by those that begin meanwhile", async () => {
  const from = await placesWithMuch();
  const out = await tempFolder();
  const slow = await backUpUnread(from);
  const [inUse] = await workFoldersIn(from.dataDir);
  expect(await runTool("backup", join(out, "quick.tar"), from)).toMatchObject({ code: 0 });
  expect(await workFoldersIn(from.dataDir)).toEqual([inUse]);
  await pipeline(slow.child.stdout!, createWriteStream(join(out, "slow.tar")));
  expect(await slow.ended).toMatchObject({ code: 0 });
  expect(await workFoldersIn(from.dataDir)).toEqual([]);

  const there = placesIn(await tempFolder());
  const restore = await restoreHalf(there, join(out, "slow.tar"));
  // There is no database to back up yet; what it would clear up it does before it looks.
  expect(await runTool("backup", join(out, "none.tar"), { ...there, configPath: "" })).toMatchObject({ code: 73 });
  restore.goOn();
  expect(await restore.ended).toMatchObject({ code: 0 });
  expect(await readdir(there.reposDir)).toEqual(["shop.git"]);
});
