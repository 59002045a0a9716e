import type { Git } from "@orchestrator/shared/git/run_git.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";
import { kindBelow, kindOf, withDiskErrors } from "./careful_files.ts";
import { findTips } from "./find_tips.ts";
import type { Mirror } from "./mirror.ts";
import { boundedNotes, printable } from "./notes.ts";
import { type OwnGitDir, withOwnGitDir } from "./own_git_dir.ts";
import { snapshotTree } from "./snapshot_tree.ts";
import { plainIndex } from "./workspace_files.ts";
import { type Wip, writeWip } from "./write_wip.ts";

export interface KeepOptions {
  git: Git;
  mirror: Mirror;
  /** Absolute path of the workspace, in which nothing of the run is alive any more. */
  workspace: string;
  /** The commit that the run began at. */
  start: string;
  /** Path of the stage's artifact in the repository, taken even where it is ignored; null: none. */
  artifact: string | null;
  runId: number;
  /** Throws where this scheduler has been superseded; called right before the ref moves. */
  fence: () => Promise<void>;
  signal?: AbortSignal | undefined;
}

export interface Kept {
  /** `refs/orchestrator/wip/<run_id>`; null where there is nothing beyond what the mirror has. */
  ref: string | null;
  /** What could not be kept, or not as it was; for people. */
  notes: string[];
}

const MAX_LIST_BYTES = 256 * 1024 * 1024;

/**
 * Keeps everything that a run left, whatever its ending, as one commit that no branch holds: HEAD, uncommitted files, other
 * branches, stashes, and the files of repositories inside the workspace. Where the workspace's git directory cannot be used
 * the files are kept on top of `start`. Called inside `mirror.exclusive`; may be called again. Throws a `ToolError` for
 * failures of git and disk, and the signal's reason on abort.
 */
export const keepWork = (options: KeepOptions): Promise<Kept> =>
  withDiskErrors("keeping what the run left", async () => {
    if ((await kindOf(options.workspace)) !== "directory") return { ref: null, notes: ["the workspace is gone"] };
    return withOwnGitDir(options.mirror, options.workspace, (own) => keepFrom(own, options));
  });

const keepFrom = async (own: OwnGitDir, options: KeepOptions): Promise<Kept> => {
  const { git, mirror, workspace, start, artifact, runId, fence, signal } = options;
  const tips = await findTips(git, mirror, own, start, runId, signal);
  const notes = [...own.notes, ...tips.notes];

  const keepOn = async (base: string): Promise<Wip> => {
    const indexFile = await plainIndex(workspace);
    const snapshot = await snapshotTree({ git, own, workTree: workspace, indexFile, base, artifact, signal });
    if (snapshot.kind === "unreadable") return snapshot;
    const { nested } = snapshot;
    const tree = await withoutTakenOut(own, options, base, snapshot.tree);
    const wip = await writeWip({ git, mirror, own, workspace, runId, fence, signal, tip: base, tree, nested, ...tips });
    return wip.kind === "unreadable" ? wip : { ...wip, notes: [...snapshot.notes, ...wip.notes] };
  };

  const fallBack = async (reason: string): Promise<Wip> => {
    notes.push(`the files were kept on top of ${start}: ${reason}`);
    return keepOn(start);
  };
  let wip = tips.head.kind === "unreadable" ? await fallBack(tips.head.reason) : await keepOn(tips.head.sha);
  if (wip.kind === "unreadable" && tips.head.kind === "commit" && tips.head.sha !== start)
    wip = await fallBack(wip.reason);
  // Not an empty answer: what could not be kept must not pass for nothing.
  if (wip.kind === "unreadable")
    throw new ToolError("git", `what run ${runId} left could not be kept: ${printable(wip.reason)}`);
  return { ref: wip.ref, notes: boundedNotes([...notes, ...wip.notes]) };
};

/**
 * The launch takes the artifact of an earlier round out of the files. Where that is all that is different nothing is: the
 * tree of `base` stands for it.
 */
const withoutTakenOut = async (
  own: OwnGitDir,
  { git, workspace, artifact, signal }: KeepOptions,
  base: string,
  tree: string,
): Promise<string> => {
  if (artifact === null || (await kindBelow(workspace, artifact)).kind !== "absent") return tree;
  const options = { gitDir: own.gitDir, signal, maxOutputBytes: MAX_LIST_BYTES };
  const changes = await git.ok(["diff-tree", "-r", "-z", "--name-status", base, tree], options);
  if (changes !== `D\0${artifact}\0`) return tree;
  return (await git.ok(["rev-parse", "--verify", `${base}^{tree}`], options)).trim();
};
