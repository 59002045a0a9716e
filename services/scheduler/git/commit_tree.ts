import type { Git } from "@orchestrator/shared/git/run_git.ts";
import type { OwnGitDir } from "./own_git_dir.ts";

/** Writes a commit by the orchestrator into the objects of `own`; answers with its name. */
export const commitTree = async (
  git: Git,
  own: OwnGitDir,
  tree: string,
  parents: readonly string[],
  message: string,
  signal: AbortSignal | undefined,
): Promise<string> => {
  const args = ["commit-tree", ...parents.flatMap((parent) => ["-p", parent]), "-F", "-", tree];
  return (await git.ok(args, { gitDir: own.gitDir, signal, input: message })).trim();
};
