import { tmpdir } from "node:os";
import { dirname } from "node:path";
import type { Config } from "@orchestrator/shared/config/config.ts";
import { checkGit } from "@orchestrator/shared/git/check_git.ts";
import { createGit } from "@orchestrator/shared/git/run_git.ts";
import { fileOfUrl, isFileUrl } from "@orchestrator/shared/storage/connection.ts";
import { makeUsable } from "@orchestrator/shared/usable_folder.ts";
import { runLogFolder } from "./run_log_path.ts";

type Places = Pick<Config, "dataDir" | "reposDir" | "workspacesDir" | "dbUrl">;

/** The folders that the scheduler and its agents write to, each with the variable that names it. */
export const foldersOf = ({ dataDir, reposDir, workspacesDir, dbUrl }: Places): [setting: string, folder: string][] => [
  ["ORCH_DATA_DIR", dataDir],
  ["ORCH_DATA_DIR", runLogFolder(dataDir)],
  ["ORCH_REPOS_DIR", reposDir],
  ["ORCH_WORKSPACES_DIR", workspacesDir],
  ...(isFileUrl(dbUrl) ? [["ORCH_DB_URL", dirname(fileOfUrl(dbUrl))] satisfies [string, string]] : []),
  ["TMPDIR", tmpdir()],
];

/**
 * Sees before anything is started that git can be run and that the folders, made where they are missing, can be written.
 * @throws {UnusableError}
 */
export const checkSurroundings = async (
  config: Places & Pick<Config, "parentEnv" | "gitNetworkConfig">,
): Promise<void> => {
  // The instance is not known before the database is open; nothing of this outlives the question.
  await checkGit(createGit({ instanceId: "", parentEnv: config.parentEnv, networkConfig: config.gitNetworkConfig }));
  for (const [setting, folder] of foldersOf(config)) await makeUsable(setting, folder);
};
