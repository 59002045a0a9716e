import { ToolError } from "@orchestrator/shared/tool_error.ts";
import type { Abortable, Mirror } from "./mirror.ts";
import { localBranch, remoteBranch } from "./refs.ts";

/**
 * Where a base branch stands: at the remote, as the last fetch saw it. A repository that is not pushed keeps a base branch of
 * its own in the mirror from the first merge on; it counts unless the remote has everything that is in it.
 * Throws a `ToolError` of class `git_ref` where the branch does not exist.
 */
export const baseTip = async (mirror: Mirror, baseBranch: string, options: Abortable = {}): Promise<string> => {
  const remote = await mirror.resolve(remoteBranch(baseBranch), options);
  const local = mirror.repo.push ? null : await mirror.resolve(localBranch(baseBranch), options);
  const isBehind = local !== null && remote !== null && (await mirror.isAncestor(local, remote, options));
  const tip = isBehind ? remote : (local ?? remote);
  if (tip !== null) return tip;
  throw new ToolError(
    "git_ref",
    `the base branch "${baseBranch}" does not exist in repository "${mirror.name}"; create it there, or name another one`,
  );
};
