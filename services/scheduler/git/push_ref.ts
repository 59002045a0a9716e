import { localBranch } from "@orchestrator/shared/git/branch_refs.ts";
import { type Git, type GitOptions, gitFailure } from "@orchestrator/shared/git/run_git.ts";
import type { Mirror } from "./mirror.ts";

export interface PushOptions {
  git: Git;
  mirror: Mirror;
  /** Branch at the remote. */
  branch: string;
  /** What it is to stand at. */
  commit: string;
  signal?: AbortSignal | undefined;
}

export type Pushed =
  | { kind: "pushed" }
  /** The branch has moved to `tip` (fetched), which `commit` does not build on. */
  | { kind: "moved"; tip: string };

const PUSH_TIMEOUT_MS = 5 * 60_000;
const LS_REMOTE_TIMEOUT_MS = 60_000;

/**
 * Pushes a commit to a branch, never by force; in doubt the remote is asked where the branch stands. Called inside
 * `mirror.exclusive`. Throws a `ToolError` of class `git_push` where the remote cannot be reached, refuses, or does not
 * answer in time, and the signal's reason on abort.
 */
export const pushRef = async (o: PushOptions): Promise<Pushed> => {
  const { git, mirror, branch, commit, signal } = o;
  const args = ["push", "--quiet", "--no-verify", "--", mirror.repo.url, `${commit}:${localBranch(branch)}`];
  const options: GitOptions = {
    gitDir: mirror.gitDir,
    signal,
    network: true,
    timeoutMs: PUSH_TIMEOUT_MS,
    errorCode: "git_push",
  };
  const result = await git.run(args, options);
  if (result.code === 0) return { kind: "pushed" };
  const failure = gitFailure(args, options, result);
  if (result.aborted) throw failure;

  // Refused, or in doubt: the answer may have been lost after the push was done.
  const tip = await remoteTip(o, failure);
  if (tip === commit) return { kind: "pushed" };
  if (tip === null) throw failure;
  await mirror.fetch({ signal });
  if (!(await mirror.hasCommit(tip, { signal })) || (await mirror.isAncestor(tip, commit, { signal }))) throw failure;
  return { kind: "moved", tip };
};

/** What the branch is at the remote right now; null if it is not there. */
const remoteTip = async ({ git, mirror, branch, signal }: PushOptions, failure: unknown): Promise<string | null> => {
  const args = ["ls-remote", "--quiet", "--refs", "--", mirror.repo.url, localBranch(branch)];
  const options: GitOptions = {
    gitDir: mirror.gitDir,
    signal,
    network: true,
    timeoutMs: LS_REMOTE_TIMEOUT_MS,
    errorCode: "git_push",
  };
  const result = await git.run(args, options);
  if (result.aborted) throw gitFailure(args, options, result);
  if (result.code !== 0) throw failure;
  // The pattern also matches a longer name that ends like this one.
  const lines = result.stdout.toString("utf8").split("\n");
  return lines.find((line) => line.endsWith(`\t${localBranch(branch)}`))?.split("\t", 1)[0] ?? null;
};
