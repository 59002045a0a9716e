import { localBranch } from "@orchestrator/shared/git/branch_refs.ts";
import { type Git, type GitOptions, gitFailure } from "@orchestrator/shared/git/run_git.ts";
import type { Points } from "@orchestrator/shared/points.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";
import { baseTip } from "./base_tip.ts";
import { DURABLE, type Mirror } from "./mirror.ts";
import { pushRef } from "./push_ref.ts";
import { squashRef } from "./refs.ts";

export interface MergeOptions {
  git: Git;
  mirror: Mirror;
  baseBranch: string;
  /** The branch's published commit. */
  commit: string;
  how: "merge" | "squash";
  /** Of the merge commit, or of the one commit that a squash makes. */
  message: string;
  /** Throws where this scheduler has been superseded; called right before anything moves. */
  fence: () => Promise<void>;
  signal?: AbortSignal | undefined;
  /** `merge.before`, `merge.after`; the key is the base branch. */
  points: Points;
}

export type Merged =
  /** `commit` is where the base branch stands with the work in it; nothing was done where it had it already. */
  { kind: "merged"; commit: string } | { kind: "conflict"; paths: string[] };

/** Others push to the base branch too; so often the merge is made anew on what they pushed. */
const TRIES = 5;

/**
 * Brings a commit into the base branch, at the remote unless the repository is not pushed. Safe to repeat: what is merged
 * already is found merged. Called inside `mirror.exclusive`. Throws a `ToolError` (`git_fetch`, `git_push`, `git_ref`) where
 * the remote fails, and the signal's reason on abort.
 */
export const mergeIntoBase = async (o: MergeOptions): Promise<Merged> => {
  const { mirror, baseBranch, fence, points, signal } = o;
  for (let tries = 1; tries <= TRIES; tries++) {
    await fence();
    await mirror.fetch({ signal });
    const base = await baseTip(mirror, baseBranch, { signal });
    if (await isIn(o, base)) return { kind: "merged", commit: base };
    const made = await makeMerge(o, base);
    if (made.kind !== "made") return made;
    await points.reach("merge.before", baseBranch);
    await fence();
    if (await moveBase(o, base, made.commit)) {
      await points.reach("merge.after", baseBranch);
      return { kind: "merged", commit: made.commit };
    }
  }
  throw new ToolError(
    "git_push",
    `the base branch "${baseBranch}" of "${mirror.name}" moved ${TRIES} times while it was merged into; tried again later`,
  );
};

/**
 * Whether the base branch has the work already. A squash leaves no trace of the branch in the base's history, and others may
 * have gone on from it on the very lines: what was made for it is remembered.
 */
const isIn = async ({ mirror, commit, how, signal }: MergeOptions, base: string): Promise<boolean> => {
  if (await mirror.isAncestor(commit, base, { signal })) return true;
  const made = how === "squash" ? await mirror.resolve(squashRef(commit), { signal }) : null;
  return made !== null && (await mirror.isAncestor(made, base, { signal }));
};

const makeMerge = async (o: MergeOptions, base: string): Promise<{ kind: "made"; commit: string } | Merged> => {
  const { git, mirror, commit, how, message, signal } = o;
  const options: GitOptions = { gitDir: mirror.gitDir, signal };
  const args = ["merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", base, commit];
  const result = await git.run(args, options);
  const [tree = "", ...paths] = result.stdout.toString("utf8").split("\0").slice(0, -1);
  if (result.code === 1) return { kind: "conflict", paths };
  if (result.code !== 0) throw gitFailure(args, options, result);
  // Somebody has brought the work there by other means.
  if (how === "squash" && tree === (await treeOf(o, base))) return { kind: "merged", commit: base };
  const parents = how === "merge" ? [base, commit] : [base];
  const commitArgs = [...DURABLE, "commit-tree", ...parents.flatMap((parent) => ["-p", parent]), "-F", "-", tree];
  const made = (await git.ok(commitArgs, { ...options, input: message })).trim();
  // Before it can reach the base branch, or an interruption after that would bring it there again.
  if (how === "squash") await remember(o, made);
  return { kind: "made", commit: made };
};

const remember = async ({ mirror, commit, fence, signal }: MergeOptions, made: string): Promise<void> => {
  const ref = squashRef(commit);
  const before = await mirror.resolve(ref, { signal });
  await fence();
  if (await mirror.updateRef(ref, made, before, { signal })) return;
  throw new ToolError("git_ref", `${ref} of "${mirror.name}" is being moved by something else; only the scheduler may`);
};

const treeOf = async ({ git, mirror, signal }: MergeOptions, commit: string): Promise<string> =>
  (await git.ok(["rev-parse", "--verify", `${commit}^{tree}`], { gitDir: mirror.gitDir, signal })).trim();

/** @returns false where the base branch has moved meanwhile. */
const moveBase = async (o: MergeOptions, from: string, to: string): Promise<boolean> => {
  const { git, mirror, baseBranch, signal } = o;
  if (mirror.repo.push)
    return (await pushRef({ git, mirror, branch: baseBranch, commit: to, signal })).kind === "pushed";
  // `from` is what the branch stood at, or, where it was behind the remote or not there, what it is brought up to on the way.
  const local = await mirror.resolve(localBranch(baseBranch), { signal });
  if (local !== null && !(await mirror.isAncestor(local, from, { signal }))) return false;
  return mirror.updateRef(localBranch(baseBranch), to, local, { signal });
};
