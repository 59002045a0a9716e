import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Snapshot } from "./database.ts";
import type { Violation } from "./invariants.ts";
import type { CrashSite } from "./site.ts";

/** What the runtime keeps there for its next start. */
const OF_THE_RUNTIME = /^tsx-/;

/** What may not be on the disk any more when all that was fed has been worked and the services were told to stop. */
export const checkDisk = async (
  site: Pick<CrashSite, "dataDir" | "tempDirs">,
  seen: Snapshot,
): Promise<Violation[]> => [
  ...(await workspacesOfDone(site, seen)),
  ...(await notesOfSettled(site, seen)),
  ...(await temporary(site)),
];

/** All that was in it is in the repository, but what that ignores. Beside it may stand files named `.<work item>.<what>`. */
const workspacesOfDone = async ({ dataDir }: Pick<CrashSite, "dataDir">, { tasks }: Snapshot): Promise<Violation[]> => {
  const done = tasks.filter((task) => task.status === "done").map((task) => task.workItemId);
  const names = await namesIn(join(dataDir, "workspaces"));
  return names
    .filter((name) => done.some((id) => name === id || name.startsWith(`.${id}.`)))
    .map((name) => `left on the disk: workspaces/${name} of a task that is done`);
};

/** A note stands in for a record; one whose record has been made speaks to nobody, or of another run's work. */
const notesOfSettled = async ({ dataDir }: Pick<CrashSite, "dataDir">, { runs }: Snapshot): Promise<Violation[]> => {
  const settled = new Set(runs.filter((run) => run.outcome !== null).map((run) => String(run.id)));
  const boots = await namesIn(join(dataDir, "exits"));
  const notes = await Promise.all(boots.map((boot) => namesIn(join(dataDir, "exits", boot))));
  return notes
    .flat()
    .filter((name) => settled.has(name))
    .map((name) => `left on the disk: the note of an exit of run ${name}, which is settled`);
};

const temporary = async ({ dataDir, tempDirs }: Pick<CrashSite, "dataDir" | "tempDirs">): Promise<Violation[]> => {
  const left = await Promise.all(
    [...Object.entries(tempDirs), ["scheduler", join(dataDir, "tmp")] as const].map(async ([service, folder]) =>
      (await namesIn(folder))
        .filter((name) => !OF_THE_RUNTIME.test(name))
        .map((name) => `left on the disk: ${name} in a temporary directory of the ${service}`),
    ),
  );
  return left.flat();
};

const namesIn = async (folder: string): Promise<string[]> =>
  readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw error;
  });
