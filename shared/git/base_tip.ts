import { localBranch, remoteBranch } from "./branch_refs.ts";
import type { Abortable, CommitReader } from "./commit_reader.ts";

/**
 * Where a base branch stands in a mirror: at the remote, as the last fetch saw it. A repository that is not pushed keeps a
 * base branch of its own in the mirror from the first merge on; it counts unless the remote has everything that is in it.
 * @param isPushed `repos.<name>.push`.
 * @returns null where the branch does not exist.
 */
export const findBaseTip = async (
  commits: CommitReader,
  baseBranch: string,
  isPushed: boolean,
  options: Abortable = {},
): Promise<string | null> => {
  const remote = await commits.resolve(remoteBranch(baseBranch), options);
  const local = isPushed ? null : await commits.resolve(localBranch(baseBranch), options);
  const isBehind = local !== null && remote !== null && (await commits.isAncestor(local, remote, options));
  return isBehind ? remote : (local ?? remote);
};
