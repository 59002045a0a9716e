import type { Git } from "@orchestrator/shared/git/run_git.ts";
import type { Mirror } from "./mirror.ts";

/** The paths of the files in one folder of a commit; none where there is no such folder. Throws a `ToolError` where git fails. */
export const listFiles = async (
  git: Git,
  mirror: Mirror,
  commit: string,
  folder: string,
  signal: AbortSignal,
): Promise<string[]> => {
  const args = ["ls-tree", "-z", "--name-only", commit, "--", `${folder}/`];
  return (await git.ok(args, { gitDir: mirror.gitDir, signal })).split("\0").slice(0, -1);
};
