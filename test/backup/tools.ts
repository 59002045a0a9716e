import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, open, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Config } from "@orchestrator/shared/config/config.ts";
import { expect, onTestFinished } from "vitest";
import { git } from "../helpers/git.ts";
import { insertTaskWithJob } from "../helpers/insert.ts";
import { projectRoot, runtimeArgv } from "../helpers/runtime.ts";
import { openTestStorage } from "../helpers/storage.ts";
import { tempFolder } from "../helpers/temp_folder.ts";

export type Tool = "backup" | "restore";

export type Places = Pick<Config, "dataDir" | "reposDir" | "configPath" | "dbUrl">;

export const placesIn = (folder: string): Places => ({
  dataDir: join(folder, "data"),
  reposDir: join(folder, "mirrors"),
  configPath: join(folder, "data/orchestrator.yaml"),
  dbUrl: `file:${join(folder, "data/orchestrator.db")}`,
});

export interface RunningTool {
  child: ChildProcess;
  ended: Promise<{ code: number | null; said: string }>;
}

/** Starts one of the two programs; by default its standard input and output are pipes. It is killed with the test. */
export const startTool = (tool: Tool, places: Places, through: number | "pipe" = "pipe"): RunningTool => {
  const [program, ...args] = runtimeArgv(`services/${tool}/main.ts`);
  const child = spawn(program, args, {
    cwd: projectRoot,
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      ORCH_DATA_DIR: places.dataDir,
      ORCH_REPOS_DIR: places.reposDir,
      ORCH_DB_URL: places.dbUrl,
      ORCH_CONFIG: places.configPath,
      // As it is in a container, where the tokens are what is to be restored.
      ORCH_HOST: "0.0.0.0",
    },
    stdio: tool === "backup" ? ["ignore", through, "pipe"] : [through, "inherit", "pipe"],
  });
  let said = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    said += text;
  });
  const ended = once(child, "close").then(([code]) => ({ code: code as number | null, said }));
  onTestFinished(async () => {
    // Not `child.kill()`, which on Deno makes any exit look like a death by that signal.
    if (child.exitCode === null && child.signalCode === null) process.kill(child.pid!, "SIGKILL");
    child.stdin?.destroy();
    child.stdout?.destroy();
    await ended;
  });
  return { child, ended };
};

/** Runs one of the two programs with a file as its standard output, or input. */
export const runTool = async (tool: Tool, file: string, places: Places) => {
  const handle = await open(file, tool === "backup" ? "w" : "r");
  const { ended } = startTool(tool, places, handle.fd);
  return ended.finally(() => handle.close());
};

/** What the programs keep in a folder while they work: nothing of it is to stay. */
export const workFoldersIn = async (folder: string): Promise<string[]> =>
  (await readdir(folder)).filter((name) => /^(backup|restore)-|\.restoring$/.test(name)).sort();

/** Places with a database of one item, a mirror for each name, a configuration and a token. */
export const makePlaces = async (mirrors: readonly string[] = ["shop"]): Promise<Places> => {
  const folder = await tempFolder();
  const places = placesIn(folder);
  await mkdir(join(places.dataDir, "secrets"), { recursive: true });
  await writeFile(join(places.dataDir, "secrets/api.token"), "a-token\n", { mode: 0o600 });
  await writeFile(places.configPath, "limits: { total: 4 }\n");
  const { storage } = await openTestStorage({ path: join(places.dataDir, "orchestrator.db") });
  await insertTaskWithJob(storage, { workItemId: "ORCH-1" });
  await storage.close();
  for (const name of mirrors) {
    const mirror = join(places.reposDir, `${name}.git`);
    await git(folder, "init", "--quiet", "--bare", mirror);
    const tree = await git(mirror, "hash-object", "-w", "-t", "tree", "/dev/null");
    const commit = await git(mirror, "commit-tree", "-m", name, tree);
    await git(mirror, "update-ref", "refs/heads/main", commit);
  }
  return places;
};

/** A backup of such places, in a file. */
export const makeBackup = async (): Promise<{ from: Places; tar: string }> => {
  const from = await makePlaces();
  const tar = join(await tempFolder(), "backup.tar");
  expect(await runTool("backup", tar, from)).toMatchObject({ code: 0 });
  return { from, tar };
};
