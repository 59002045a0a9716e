import type { Git } from "@orchestrator/shared/git/run_git.ts";
import { replaceRef } from "./earlier_artifact.ts";
import type { Mirror } from "./mirror.ts";
import type { OwnGitDir } from "./own_git_dir.ts";
import { runRef, wipRef } from "./refs.ts";

/** What a workspace's git directory names. */
export interface Tips {
  head: { kind: "commit"; sha: string } | { kind: "unreadable"; reason: string };
  /** Commits that other refs, stashes and worktrees name and that no ref of the mirror does; each once. */
  others: string[];
  /** What refs of the mirror name, other than those of this very run: nothing that these bring can get lost. */
  have: string[];
  notes: string[];
}

/** Finds the commits that a workspace has beyond the mirror's refs. What its refs claim is checked against its objects. */
export const findTips = async (
  git: Git,
  mirror: Mirror,
  own: OwnGitDir,
  start: string,
  runId: number,
  signal: AbortSignal | undefined,
): Promise<Tips> => {
  const { theirs } = own;
  if (theirs === null) return { head: { kind: "commit", sha: start }, others: [], have: [start], notes: [] };

  const named = new Set([...theirs.refs.values(), ...theirs.further]);
  if (theirs.head.kind === "object") named.add(theirs.head.sha);
  named.delete(start);
  // What the launch has put in the start's place is nobody's work.
  named.delete(theirs.refs.get(replaceRef(start)) ?? "");
  const have = named.size === 0 ? [start] : [start, ...(await mirrorCommits(git, mirror, runId, signal))];
  for (const sha of have) named.delete(sha);
  // HEAD is looked at even where a ref of the mirror names it too.
  if (theirs.head.kind === "object" && theirs.head.sha !== start) named.add(theirs.head.sha);

  const commits = await peelToCommits(git, own.gitDir, [...named], signal);
  const head = readHead(theirs.head, start, commits);
  const notes = [...named].filter((sha) => !commits.has(sha)).map((sha) => `${sha} was not kept: it is no commit here`);
  if (theirs.head.kind === "object") commits.delete(theirs.head.sha);
  const others = new Set(commits.values());
  others.delete(start);
  if (head.kind === "commit") others.delete(head.sha);
  return { head, others: [...others], have, notes };
};

const mirrorCommits = async (
  git: Git,
  mirror: Mirror,
  runId: number,
  signal: AbortSignal | undefined,
): Promise<string[]> => {
  const listing = await git.ok(["for-each-ref", "--format=%(objectname) %(refname)"], {
    gitDir: mirror.gitDir,
    signal,
  });
  const refs = listing.split("\n").slice(0, -1);
  return refs
    .filter((ref) => !ref.endsWith(` ${runRef(runId)}`) && !ref.endsWith(` ${wipRef(runId)}`))
    .map((ref) => ref.split(" ", 1)[0]!);
};

const readHead = (
  head: { kind: "object"; sha: string; ref: string | null } | { kind: "unreadable"; reason: string },
  start: string,
  commits: ReadonlyMap<string, string>,
): Tips["head"] => {
  if (head.kind === "unreadable") return head;
  const sha = head.sha === start ? start : commits.get(head.sha);
  if (sha === head.sha) return { kind: "commit", sha };
  return { kind: "unreadable", reason: `HEAD names ${head.sha}, which is not a commit that is there` };
};

/** Object name → the commit it is, or (a tag) that it stands for. What is missing or something else is left out. */
const peelToCommits = async (
  git: Git,
  gitDir: string,
  names: readonly string[],
  signal: AbortSignal | undefined,
): Promise<Map<string, string>> => {
  const commits = new Map<string, string>();
  if (names.length === 0) return commits;
  const args = ["cat-file", "--batch-check=%(objectname) %(objecttype)"];
  const types = await git.ok(args, { gitDir, signal, input: `${names.join("\n")}\n` });
  const tags: string[] = [];
  for (const line of types.split("\n")) {
    const [sha = "", type] = line.split(" ");
    if (type === "commit") commits.set(sha, sha);
    if (type === "tag") tags.push(sha);
  }
  for (const tag of tags) {
    const peeled = await git.run(["rev-parse", "--verify", "--quiet", `${tag}^{commit}`], { gitDir, signal });
    signal?.throwIfAborted();
    if (peeled.code === 0) commits.set(tag, peeled.stdout.toString("utf8").trim());
  }
  return commits;
};
