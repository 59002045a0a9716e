import type { Git } from "@orchestrator/shared/git/run_git.ts";
import { RUN_TRAILER } from "./commit_message.ts";
import type { Mirror } from "./mirror.ts";
import { printable } from "./notes.ts";
import { runRef } from "./refs.ts";

/** Whether a run belongs to the task at hand. */
export type OwnRun = (runId: number) => boolean | Promise<boolean>;

export type Whose = { kind: "own"; runId: number } | { kind: "foreign"; sha: string; author: string };

/**
 * Tells whether the tip of a branch is a commit that a run of this task made. Its trailer says which; since anybody can write
 * one, or amend a commit that has one, only the ref tells: what a run made is kept under it before it is pushed.
 */
export const whoseCommit = async (
  git: Git,
  mirror: Mirror,
  sha: string,
  ownRun: OwnRun,
  signal: AbortSignal | undefined,
): Promise<Whose> => {
  const format = `--format=%an <%ae>%x00%(trailers:key=${RUN_TRAILER},valueonly,separator=%x2C)`;
  const args = ["log", "-1", "--no-notes", "--no-show-signature", format, sha];
  const shown = await git.ok(args, { gitDir: mirror.gitDir, signal });
  const [author = "", trailer = ""] = shown.trimEnd().split("\0");
  const runId = /^[0-9]{1,15}$/.test(trailer) ? Number(trailer) : null;
  const isOwn = runId !== null && (await ownRun(runId)) && (await mirror.resolve(runRef(runId), { signal })) === sha;
  if (isOwn) return { kind: "own", runId };
  return { kind: "foreign", sha, author: printable(author) };
};
