import { localBranch, remoteBranch } from "@orchestrator/shared/git/branch_refs.ts";
import type { Git } from "@orchestrator/shared/git/run_git.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";
import { baseTip } from "./base_tip.ts";
import type { Mirror } from "./mirror.ts";
import { type OwnRun, whoseCommit } from "./whose_commit.ts";

export interface StartOptions {
  git: Git;
  mirror: Mirror;
  branch: string;
  baseBranch: string;
  /** What the last settle recorded; null before the first. */
  head: string | null;
  ownRun: OwnRun;
  signal?: AbortSignal | undefined;
}

export type Start =
  | { kind: "start"; commit: string }
  /** The branch is ahead of `head` by this task's own commits: a push whose settle was lost. */
  | { kind: "adopt"; commit: string }
  /** The branch has commits of somebody else's; `author` is `name <mail>`. */
  | { kind: "foreign"; sha: string; author: string };

/**
 * Where a run starts, from what the last fetch saw: at `head`, or, before there is one, at the tip of the remote's branch
 * or of the base branch. Throws a `ToolError` of class `git_ref` where the base branch or `head` does not exist.
 */
export const startCommit = async (o: StartOptions): Promise<Start> => {
  const { mirror, branch, head, signal } = o;
  const remote = await mirror.resolve(remoteBranch(branch), { signal });
  const from = head ?? remote ?? (await baseTip(mirror, o.baseBranch, { signal }));
  if (head !== null && !(await mirror.hasCommit(head, { signal }))) {
    throw new ToolError(
      "git_ref",
      `commit ${head}, which the task's last stage ended with, is not in the mirror of "${mirror.name}"; has ${mirror.gitDir} been replaced?`,
    );
  }
  // What may be ahead of the last settle: the remote's branch, or, where nothing is pushed, the local one.
  const tip = mirror.repo.push ? remote : await mirror.resolve(localBranch(branch), { signal });
  const isBehind = tip === null || tip === head || (tip !== from && (await mirror.isAncestor(tip, from, { signal })));
  if (isBehind) return { kind: "start", commit: from };
  const whose = await whoseCommit(o.git, mirror, tip, o.ownRun, signal);
  // Before the first settle the remote's branch is where the work begins, whoever made it.
  if (tip === from) return { kind: whose.kind === "own" ? "adopt" : "start", commit: tip };
  if (whose.kind === "foreign") return whose;
  if (await mirror.isAncestor(from, tip, { signal })) return { kind: "adopt", commit: tip };
  throw new ToolError(
    "git_ref",
    `branch "${branch}" of "${mirror.name}" stands at ${tip}, a commit of this task's run ${whose.runId} that does not build on ${from}; one of the two has to go`,
  );
};
