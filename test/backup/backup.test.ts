import { cp, mkdir, open, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { git } from "../helpers/git.ts";
import { makeSite, postTask, type Site, startTestScheduler, taskWhen } from "../helpers/scheduler.ts";
import { tempFolder } from "../helpers/temp_folder.ts";
import { placesIn, runTool, workFoldersIn } from "./tools.ts";

/** A site with one item done and one in the middle, held in `testing`; a backup was made while its agent was at work. */
const backUpAtWork = async (): Promise<{ site: Site; tar: string; heads: string[] }> => {
  const site = await makeSite();
  // Where it stands on the volume that a backup is restored to: there it is only in the backup.
  site.config = { ...site.config, configPath: join(site.config.dataDir, "orchestrator.yaml") };
  await mkdir(join(site.config.dataDir, "secrets"), { recursive: true });
  await writeFile(join(site.config.dataDir, "secrets/api.token"), "a-token\n", { mode: 0o600 });
  await writeFile(site.config.configPath, "limits: { total: 4 }\n");
  const scheduler = await startTestScheduler(site);
  await postTask(scheduler, { workItemId: "DONE-1" });
  const { task: finished } = await taskWhen(scheduler, "DONE-1", ({ task }) => task.status === "done");
  await site.hook("testing", `while [ ! -e ${site.folder}/go ]; do sleep 0.05; done`);
  await postTask(scheduler, { workItemId: "HALF-1" });
  const { task: half } = await taskWhen(
    scheduler,
    "HALF-1",
    ({ task, events }) => task.stage === "testing" && events.at(-1)?.kind === "started",
  );
  const tar = join(site.folder, "backup.tar");
  expect(await runTool("backup", tar, site.config)).toMatchObject({ code: 0 });
  // Nothing of it stays beside the database.
  expect(await workFoldersIn(site.config.dataDir)).toEqual([]);
  await scheduler.stop();
  await writeFile(join(site.folder, "go"), "");
  return { site, tar, heads: [finished.head ?? "", half.head ?? ""] };
};

test("what was backed up at work is restored on another machine, and the work goes on there", async () => {
  const { site, tar, heads } = await backUpAtWork();
  const there = placesIn(await tempFolder());
  const restored = await runTool("restore", tar, there);
  expect(restored).toMatchObject({ code: 0 });
  expect(restored.said).toContain(`restored ${join(there.dataDir, "orchestrator.db")}`);

  const mirror = join(there.reposDir, "shop.git");
  for (const head of heads) expect(await git(mirror, "cat-file", "-t", head)).toBe("commit");
  const refs = (folder: string) =>
    git(folder, "for-each-ref", "--format=%(refname) %(objectname)", "refs/orchestrator");
  expect(await refs(mirror)).toBe(await refs(join(site.config.reposDir, "shop.git")));
  expect((await stat(join(there.dataDir, "secrets/api.token"))).mode & 0o777).toBe(0o600);
  expect(await readFile(join(there.dataDir, "secrets/api.token"), "utf8")).toBe("a-token\n");
  expect(await readFile(there.configPath, "utf8")).toBe("limits: { total: 4 }\n");
  expect(await workFoldersIn(there.dataDir)).toEqual([]);

  const workspacesDir = join(there.dataDir, "workspaces");
  const scheduler = await startTestScheduler(site, { config: { ...there, workspacesDir } });
  const { task, runs } = await taskWhen(scheduler, "HALF-1", ({ task: seen }) => seen.status === "done");
  expect(runs.filter(({ outcome }) => outcome === "interrupted")).toHaveLength(1);
  expect(await git(site.remote, "rev-parse", task.branch)).toBe(task.head);
  expect((await taskWhen(scheduler, "DONE-1", () => true)).task.status).toBe("done");
});

test("a restore does not touch a database that is there, nor one that a scheduler works on", async () => {
  const { site, tar } = await backUpAtWork();
  const there = placesIn(await tempFolder());
  await mkdir(there.dataDir);
  await writeFile(join(there.dataDir, "orchestrator.db"), "mine");
  const refused = await runTool("restore", tar, there);
  expect(refused).toMatchObject({ code: 73 });
  expect(refused.said).toContain(`there is a database at ${join(there.dataDir, "orchestrator.db")}: move it away`);
  expect(await readFile(join(there.dataDir, "orchestrator.db"), "utf8")).toBe("mine");

  await startTestScheduler(site);
  const inUse = await runTool("restore", tar, site.config);
  expect(inUse).toMatchObject({ code: 75 });
});

test("a damaged backup puts no database in place", async () => {
  const { site, tar } = await backUpAtWork();
  // With nothing said of where the database and the configuration are.
  const there = { ...placesIn(await tempFolder()), dbUrl: "", configPath: "" };
  const cut = join(site.folder, "cut.tar");
  await cp(tar, cut);
  const file = await open(cut, "r+");
  await file.truncate(20_000);
  await file.close();
  // What an earlier one has left when it was killed does not stay because this one fails.
  await mkdir(there.dataDir);
  await writeFile(join(there.dataDir, "orchestrator.db.restoring"), "a database");
  const refused = await runTool("restore", cut, there);
  expect(refused).toMatchObject({ code: 73 });
  expect(refused.said).toContain(
    "what standard input gave is no whole backup (tar ended with 2): begin again with one",
  );
  expect(await workFoldersIn(there.dataDir)).toEqual([]);
  expect((await readdir(there.dataDir)).filter((name) => name.endsWith(".db") && name !== "scheduler.lock.db")).toEqual(
    [],
  );

  // It can be begun again.
  expect(await runTool("restore", tar, there)).toMatchObject({ code: 0 });
});

test("a backup of nothing says that there is no database, and leaves none", async () => {
  const folder = await tempFolder();
  const places = placesIn(folder);
  await mkdir(places.dataDir);
  const { code, said } = await runTool("backup", join(folder, "out.tar"), { ...places, configPath: "" });
  expect(code).toBe(73);
  expect(said).toContain("there is no database at");
  expect(await readdir(places.dataDir)).toEqual([]);
});
