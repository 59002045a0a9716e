import { chmod, lstat, mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { clearTempFolder, tempFolderOf } from "../../services/scheduler/temp_folder.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../helpers/scheduler.ts";
import { tempFolder } from "../helpers/temp_folder.ts";

/** What a scheduler leaves that is killed while it hands a prompt over. */
const leavePrompt = async (dataDir: string): Promise<void> => {
  const folder = join(tempFolderOf(dataDir), "orchestrator-Ab3xYz");
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "text"), "the prompt");
};

describe("cleared, it is an empty folder that only its owner can enter", () => {
  test.each<[string, (dataDir: string, elsewhere: string) => Promise<unknown>]>([
    ["nothing was there", async () => {}],
    ["something was left in it", (dataDir) => leavePrompt(dataDir)],
    [
      "others could enter it",
      (dataDir) => mkdir(tempFolderOf(dataDir)).then(() => chmod(tempFolderOf(dataDir), 0o777)),
    ],
    ["a file stood in its place", (dataDir) => writeFile(tempFolderOf(dataDir), "")],
    ["a link stood in its place", (dataDir, elsewhere) => symlink(elsewhere, tempFolderOf(dataDir))],
  ])("%s", async (_, prepare) => {
    const [dataDir, elsewhere] = [await tempFolder(), await tempFolder()];
    await writeFile(join(elsewhere, "somebody's"), "");
    await prepare(dataDir, elsewhere);
    await clearTempFolder(dataDir);
    const entry = await lstat(tempFolderOf(dataDir));
    expect([entry.isDirectory(), entry.mode & 0o777]).toEqual([true, 0o700]);
    expect(await readdir(tempFolderOf(dataDir))).toEqual([]);
    expect(await readdir(elsewhere)).toEqual(["somebody's"]);
  });
});

test("a start removes what a killed scheduler left there; prompts are handed over from there, and leave nothing", async () => {
  const site = await makeSite();
  const { dataDir } = site.config;
  await leavePrompt(dataDir);
  const stdin = join(site.folder, "stdin");
  await site.hook("analysis", `readlink /proc/self/fd/0 >${stdin}; exit 1`);
  const scheduler = await startTestScheduler(site);
  expect(await readdir(tempFolderOf(dataDir))).toEqual([]);
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await taskWhen(scheduler, "ORCH-1", ({ runs }) => (runs[0]?.outcome ?? null) !== null);
  expect(await readFile(stdin, "utf8")).toMatch(new RegExp(`^${tempFolderOf(dataDir)}/orchestrator-`));
  expect(await readdir(tempFolderOf(dataDir))).toEqual([]);
});

test("a scheduler that is refused removes nothing: it is the other's", async () => {
  const site = await makeSite();
  await startTestScheduler(site);
  await leavePrompt(site.config.dataDir);
  await expect(startTestScheduler(site)).rejects.toThrow("another scheduler works on this database");
  expect(await readdir(tempFolderOf(site.config.dataDir))).toEqual(["orchestrator-Ab3xYz"]);
});
