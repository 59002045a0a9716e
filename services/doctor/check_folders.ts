import { access, constants, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import type { Config } from "@orchestrator/shared/config/config.ts";
import { isLoopbackHost } from "@orchestrator/shared/http/guard.ts";
import { openChildOutput } from "@orchestrator/shared/process/child_output.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";
import { UnusableError } from "@orchestrator/shared/unusable.ts";
import { nearestFolder, probe, unusableFolder } from "@orchestrator/shared/usable_folder.ts";
import { foldersOf } from "../scheduler/surroundings.ts";
import type { Check } from "./checks.ts";
import { type Finding, fail, ok, warn } from "./finding.ts";

/** Whether the directories can be written; one that is missing is not made, but it must be possible to make it. */
export const checkFolders: Check = async ({ config }) => {
  const findings: Finding[] = [];
  const seen = new Set<string>();
  for (const [setting, folder] of foldersToCheck(config)) {
    if (seen.has(folder)) continue;
    seen.add(folder);
    findings.push(await checkFolder(setting, folder, { takesPipes: folder === config.dataDir }));
  }
  return findings;
};

/** The folders that hold what the services keep, on this machine. */
export const foldersToCheck = (config: Config): [setting: string, folder: string][] => [
  ...foldersOf(config),
  ...(config.stagingRunnerEnabled && isLoopbackHost(new URL(config.stagerUrl).host)
    ? [["ORCH_SCRATCH_DIR", config.scratchDir] satisfies [string, string]]
    : []),
];

const checkFolder = async (
  setting: string,
  folder: string,
  { takesPipes }: { takesPipes: boolean },
): Promise<Finding> => {
  try {
    const nearest = await nearestFolder(folder);
    if (nearest !== folder) {
      await access(nearest, constants.W_OK | constants.X_OK);
      return ok(setting, `${folder} is not there yet and can be made`);
    }
    await probe(folder);
    return (
      (await ownedByAnother(setting, folder)) ??
      (takesPipes ? await checkPipes(setting, folder) : null) ??
      ok(setting, `${folder} can be written`)
    );
  } catch (error) {
    const { found, todo } = error instanceof UnusableError ? error : await unusableFolder(setting, folder, error);
    return fail(setting, found.replace(`${setting}: `, ""), todo);
  }
};

/** Root may write anywhere, which says nothing about the user that the services run as. */
const ownedByAnother = async (setting: string, folder: string): Promise<Finding | null> => {
  const { uid } = await stat(folder);
  if (process.getuid?.() !== 0 || uid === 0 || folder === tmpdir()) return null;
  return warn(
    setting,
    `${folder} belongs to user ${uid}, and this was run by root`,
    "run it as the user of the services",
  );
};

/** The output of agents goes through named pipes there. */
const checkPipes = async (setting: string, folder: string): Promise<Finding | null> => {
  try {
    (await openChildOutput(folder)).abandon();
    return null;
  } catch (error) {
    if (error instanceof ToolError) return fail(setting, error.message, null);
    throw error;
  }
};
