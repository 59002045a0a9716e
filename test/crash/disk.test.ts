import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Run, Task } from "@orchestrator/shared/schemas/rows.ts";
import { expect, test } from "vitest";
import { tempFolder } from "../helpers/temp_folder.ts";
import type { Snapshot } from "./database.ts";
import { checkDisk } from "./disk.ts";

/** One item is done, another is not; run 1 is settled, run 2 is not. */
const SEEN = {
  tasks: [
    { workItemId: "CRASH-1", status: "done" },
    { workItemId: "CRASH-11", status: "blocked" },
  ] as Task[],
  runs: [
    { id: 1, outcome: "succeeded" },
    { id: 2, outcome: null },
  ] as Run[],
} as Snapshot;

const NOTES = "data/exits/1c1f64a8-boot";

/** What is said of a disk with these files, besides what may be there. */
const foundWith = async (...paths: string[]): Promise<string[]> => {
  const folder = await tempFolder();
  const allowed = ["data/workspaces/CRASH-11/kept", "data/workspaces/.CRASH-11.index", `${NOTES}/2`, "tmp/tsx-0/cache"];
  for (const path of [...allowed, ...paths]) {
    await mkdir(join(folder, path, ".."), { recursive: true });
    await writeFile(join(folder, path), "");
  }
  const tempDirs = { scheduler: join(folder, "tmp"), stager: join(folder, "tmp2") };
  return checkDisk({ dataDir: join(folder, "data"), tempDirs }, SEEN);
};

test("nothing is said of what may be there, nor where there is nothing", async () => {
  expect(await foundWith()).toEqual([]);
  const nowhere = join(await tempFolder(), "nowhere");
  expect(await checkDisk({ dataDir: nowhere, tempDirs: { scheduler: nowhere, stager: nowhere } }, SEEN)).toEqual([]);
});

test.each<[path: string, said: string]>([
  ["data/workspaces/CRASH-1/left.txt", "workspaces/CRASH-1 of a task that is done"],
  ["data/workspaces/.CRASH-1.index", "workspaces/.CRASH-1.index of a task that is done"],
  ["data/workspaces/.CRASH-1.making", "workspaces/.CRASH-1.making of a task that is done"],
  [`${NOTES}/1`, "the note of an exit of run 1, which is settled"],
  // An exit that was refused.
  [`${NOTES}/1/x`, "the note of an exit of run 1, which is settled"],
  ["tmp/orchestrator-abc/prompt", "orchestrator-abc in a temporary directory of the scheduler"],
  ["data/tmp/orchestrator-abc/prompt", "orchestrator-abc in a temporary directory of the scheduler"],
  ["tmp2/orchestrator-abc/pipe", "orchestrator-abc in a temporary directory of the stager"],
])("%s is seen", async (path, said) => {
  expect(await foundWith(path)).toEqual([`left on the disk: ${said}`]);
});
