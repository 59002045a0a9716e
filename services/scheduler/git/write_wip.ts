import { join } from "node:path";
import type { Git, GitOptions } from "@orchestrator/shared/git/run_git.ts";
import { kindBelow } from "./careful_files.ts";
import { commitMessage } from "./commit_message.ts";
import { commitTree } from "./commit_tree.ts";
import { importCommits } from "./import_commits.ts";
import { DURABLE, type Mirror } from "./mirror.ts";
import type { OwnGitDir } from "./own_git_dir.ts";
import { wipRef } from "./refs.ts";
import { runOnTheirs, type Unreadable } from "./run_on_theirs.ts";
import { snapshotTree } from "./snapshot_tree.ts";

export interface WipOptions {
  git: Git;
  mirror: Mirror;
  own: OwnGitDir;
  workspace: string;
  runId: number;
  /** First parent. */
  tip: string;
  /** The files, on top of `tip`. */
  tree: string;
  /** Commits that become further parents, as far as none of `have` and no other brings them. */
  others: readonly string[];
  /** Folders of repositories inside the workspace; their files are kept as plain files. */
  nested: readonly string[];
  /** Commits that the mirror keeps anyway. */
  have: readonly string[];
  /** Throws where this scheduler has been superseded; called right before the ref moves. */
  fence: () => Promise<void>;
  signal: AbortSignal | undefined;
}

export type Wip = { kind: "kept"; ref: string | null; notes: string[] } | Unreadable;

/** More parents than this and the commit is unwieldy; so many branches are no work. */
const MAX_PARENTS = 1000;
/** So many repositories inside one workspace are dependencies that a program fetched. */
const MAX_NESTED = 16;
const MAX_LIST_BYTES = 256 * 1024 * 1024;

/**
 * Keeps as one commit under `wipRef(runId)` what the mirror does not hold yet; ref null where that is nothing.
 * `unreadable`: `tip` itself cannot be read.
 */
export const writeWip = async (o: WipOptions): Promise<Wip> => {
  const { git, mirror, own, runId, signal } = o;
  const notes: string[] = [];
  const tips = await freshTips(o, [o.tip, ...o.others]);
  const tree = o.nested.length === 0 ? o.tree : await withNested(o, notes);
  if (tips.length === 0 && tree === (await treeOf(o))) return { kind: "kept", ref: null, notes };

  let others = tips.filter((sha) => sha !== o.tip);
  if (others.length > MAX_PARENTS) {
    notes.push(`${others.length - MAX_PARENTS} further branches were not kept: there are too many`);
    others = others.slice(0, MAX_PARENTS);
  }
  const write = async (): Promise<Wip> => {
    const commit = await commitTree(git, own, tree, [o.tip, ...others], messageFor(runId, o.nested), signal);
    const imported = await importCommits(git, mirror, own, [commit], o.have, "whole", signal);
    if (imported.kind === "unreadable") return imported;
    await o.fence();
    await git.ok([...DURABLE, "update-ref", "--no-deref", wipRef(runId), commit], { gitDir: mirror.gitDir, signal });
    return { kind: "kept", ref: wipRef(runId), notes };
  };
  const first = await write();
  if (first.kind === "kept" || others.length === 0) return first;

  // One of them is broken: each is tried by itself, so that it does not take the others with it.
  const whole: string[] = [];
  for (const sha of others) {
    const imported = await importCommits(git, mirror, own, [sha], o.have, "whole", signal);
    if (imported.kind === "imported") whole.push(sha);
    else notes.push(`${sha} was not kept: ${imported.reason}`);
  }
  others = whole;
  if (others.length === 0 && !tips.includes(o.tip) && tree === (await treeOf(o)))
    return { kind: "kept", ref: null, notes };
  return write();
};

/** Of `candidates` those that none of `have` and no other candidate brings. */
const freshTips = async (o: WipOptions, candidates: readonly string[]): Promise<string[]> => {
  const have = new Set(o.have);
  const unknown = candidates.filter((sha) => !have.has(sha));
  if (unknown.length === 0) return [];
  const listing = await runOnTheirs(o.git, ["rev-list", "--parents", "--stdin"], {
    gitDir: o.own.gitDir,
    signal: o.signal,
    input: [...unknown, ...o.have.map((sha) => `^${sha}`), ""].join("\n"),
    maxOutputBytes: MAX_LIST_BYTES,
  });
  // A commit among them has parts missing: which one shows when each is imported.
  if (listing.kind === "unreadable") return unknown;
  const news = new Set<string>();
  const parents = new Set<string>();
  for (const line of listing.stdout.split("\n")) {
    const [sha = "", ...above] = line.split(" ");
    news.add(sha);
    for (const parent of above) parents.add(parent);
  }
  return unknown.filter((sha) => news.has(sha) && !parents.has(sha));
};

const treeOf = async ({ git, own, tip, signal }: WipOptions): Promise<string | null> => {
  const found = await runOnTheirs(git, ["rev-parse", "--verify", `${tip}^{tree}`], { gitDir: own.gitDir, signal });
  return found.kind === "done" ? found.stdout.trim() : null;
};

/** `tree` with the files of the repositories inside the workspace, each in its folder. */
const withNested = async (o: WipOptions, notes: string[]): Promise<string> => {
  const { git, own, workspace, signal } = o;
  const options = { gitDir: own.gitDir, indexFile: join(own.scratch, "wip-index"), signal };
  await git.ok(["read-tree", o.tree], options);
  const folders = [...o.nested];
  for (const [count, folder] of folders.entries()) {
    if (count === MAX_NESTED) {
      notes.push(`repositories inside the workspace beyond the first ${MAX_NESTED} were not kept`);
      break;
    }
    if ((await kindBelow(workspace, folder)).kind !== "directory") {
      notes.push(`the files of ${folder} were not kept: there is no such folder`);
      continue;
    }
    const inside = await snapshotTree({
      git,
      own,
      workTree: join(workspace, folder),
      indexFile: join(own.scratch, `nested-index-${count}`),
      base: null,
      artifact: null,
      signal,
    });
    if (inside.kind === "unreadable") {
      notes.push(`the files of ${folder} were not kept: ${inside.reason}`);
      continue;
    }
    folders.push(...inside.nested.map((deeper) => `${folder}/${deeper}`));
    await addBelow(git, folder, inside.tree, options);
  }
  return (await git.ok(["write-tree"], options)).trim();
};

/** Puts the files of `tree` into the index below `folder`, in place of what stands there. */
const addBelow = async (git: Git, folder: string, tree: string, options: GitOptions): Promise<void> => {
  const listing = await git.bytes(["ls-tree", "-r", "-z", tree], { ...options, maxOutputBytes: MAX_LIST_BYTES });
  const lines: Buffer[] = [];
  for (let from = 0; from < listing.length; ) {
    const path = listing.indexOf("\t", from) + 1;
    const end = listing.indexOf(0, path) + 1;
    lines.push(listing.subarray(from, path), Buffer.from(`${folder}/`), listing.subarray(path, end));
    from = end;
  }
  const args = ["update-index", "--add", "--replace", "-z", "--index-info"];
  await git.ok(args, { ...options, input: Buffer.concat(lines) });
};

const messageFor = (runId: number, nested: readonly string[]): string =>
  commitMessage({
    subject: `Keep what run ${runId} left`,
    body: [
      "Not judged and not part of any branch. Further parents are other branches and stashes of the workspace.",
      ...(nested.length === 0 ? [] : ["Folders that were repositories of their own stand here as plain files."]),
    ].join("\n"),
    trailers: { "Orchestrator-Wip": runId },
  });
