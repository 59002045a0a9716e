import { localBranch } from "@orchestrator/shared/git/branch_refs.ts";
import type { Git } from "@orchestrator/shared/git/run_git.ts";
import type { Points } from "@orchestrator/shared/points.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";
import type { Mirror } from "./mirror.ts";
import { pushRef } from "./push_ref.ts";
import { type OwnRun, whoseCommit } from "./whose_commit.ts";

export interface PublishOptions {
  git: Git;
  mirror: Mirror;
  branch: string;
  /** What the branch is to stand at; descends from `start`. */
  commit: string;
  /** Where the run began, which is on record as the task's head. */
  start: string;
  /** Throws where this scheduler has been superseded; called right before the push and right before the ref moves. */
  fence: () => Promise<void>;
  ownRun: OwnRun;
  signal?: AbortSignal | undefined;
  /** `push.before`, `push.after`, `ref.before`, `ref.after`; the key is the branch. */
  points: Points;
}

export type Published =
  | { kind: "published" }
  /** The branch has commits of somebody else's; `author` is `name <mail>`. */
  | { kind: "foreign"; sha: string; author: string }
  /** The branch is ahead by this task's own commits, of which `commit` is the last. */
  | { kind: "behind_own"; commit: string };

/**
 * Makes `commit` the tip of the branch: at the remote, never by force, unless the repository is not pushed; then in the
 * mirror, by compare-and-set. Safe to repeat: what is done already is found done. Called inside `mirror.exclusive`.
 * Throws a `ToolError` of class `git_push` where the remote cannot be reached, refuses, or does not answer in time, the
 * signal's reason on abort, and what `fence` throws.
 */
export const publishCommit = async (o: PublishOptions): Promise<Published> => {
  const { mirror, branch, commit, start, fence, points, signal } = o;
  if (!(await mirror.isAncestor(start, commit, { signal }))) {
    throw new ToolError(
      "git_ref",
      `${commit} does not descend from ${start} and must not become the tip of "${branch}"`,
    );
  }
  if (mirror.repo.push) {
    await points.reach("push.before", branch);
    await fence();
    const pushed = await push(o);
    if (pushed.kind !== "published") return pushed;
    await points.reach("push.after", branch);
  }
  await points.reach("ref.before", branch);
  await fence();
  const moved = await moveLocalBranch(o);
  if (moved.kind !== "published") return moved;
  await points.reach("ref.after", branch);
  return { kind: "published" };
};

const push = async (o: PublishOptions): Promise<Published> => {
  const pushed = await pushRef(o);
  return pushed.kind === "pushed" ? { kind: "published" } : classify(o, pushed.tip);
};

const classify = async (o: PublishOptions, tip: string): Promise<Published> => {
  const whose = await whoseCommit(o.git, o.mirror, tip, o.ownRun, o.signal);
  return whose.kind === "own" ? { kind: "behind_own", commit: tip } : whose;
};

/** Sets the local branch if it still is where the run began, or something that may be left behind. */
const moveLocalBranch = async (o: PublishOptions): Promise<Published> => {
  const { mirror, branch, commit, start, signal } = o;
  const ref = localBranch(branch);
  if (await mirror.updateRef(ref, commit, start, { signal })) return { kind: "published" };
  const tip = await mirror.resolve(ref, { signal });
  if (tip === commit) return { kind: "published" };
  if (tip !== null && !(await mirror.isAncestor(tip, commit, { signal }))) {
    const whose = await whoseCommit(o.git, mirror, tip, o.ownRun, signal);
    if (whose.kind === "own") return { kind: "behind_own", commit: tip };
    // The remote has just taken the commit: what stands here is left from an earlier task on a branch of that name.
    if (!mirror.repo.push) return whose;
  }
  if (await mirror.updateRef(ref, commit, tip, { signal })) return { kind: "published" };
  throw new ToolError(
    "git_ref",
    `${ref} of repository "${mirror.name}" is being moved by something else; only the scheduler may`,
  );
};
