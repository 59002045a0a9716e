import type { Git } from "@orchestrator/shared/git/run_git.ts";
import { kindOf, withDiskErrors } from "./careful_files.ts";
import { withRunTrailer } from "./commit_message.ts";
import { commitTree } from "./commit_tree.ts";
import { findTips } from "./find_tips.ts";
import { importCommits } from "./import_commits.ts";
import { DURABLE, type Mirror } from "./mirror.ts";
import { boundedNotes, printable } from "./notes.ts";
import { type OwnGitDir, withOwnGitDir } from "./own_git_dir.ts";
import { runRef } from "./refs.ts";
import type { Unreadable } from "./run_on_theirs.ts";
import { snapshotTree } from "./snapshot_tree.ts";
import { plainIndex } from "./workspace_files.ts";
import { writeWip } from "./write_wip.ts";

export interface CollectOptions {
  git: Git;
  mirror: Mirror;
  /** Absolute path of the workspace, in which nothing of the run is alive any more. */
  workspace: string;
  /** The commit that the run began at. */
  start: string;
  /** Path of the stage's artifact in the repository; taken even where it is ignored. */
  artifact: string;
  /** Of the orchestrator's own commit; the trailer `Orchestrator-Run` is added where it lacks it. */
  message: string;
  runId: number;
  /** Throws where this scheduler has been superseded; called right before a ref moves. */
  fence: () => Promise<void>;
  signal?: AbortSignal | undefined;
}

export type Collected =
  | {
      kind: "collected";
      commit: string;
      /** Between `start` and `commit`. */
      changedPaths: string[];
      /** What was left out, or not taken as git would have; for people. */
      notes: string[];
      /** Where commits of other branches and files of nested repositories have been kept; null: there are none. */
      wipRef: string | null;
    }
  | { kind: "not_descended"; tip: string }
  | Unreadable;

/**
 * Takes the work of a run that exited 0 into the mirror: the commits on HEAD and, on top of them, one commit of the
 * orchestrator's own with what was left uncommitted (empty where nothing was). It is kept under `runRef(runId)`; no branch
 * moves. Called inside `mirror.exclusive`, and only while that ref does not exist: a run's commit does not change.
 * Throws a `ToolError` for failures of git and disk, and the signal's reason on abort.
 */
export const collectWork = (options: CollectOptions): Promise<Collected> =>
  withDiskErrors("collecting the work", async () => {
    const { mirror, workspace } = options;
    if ((await kindOf(workspace)) !== "directory") {
      return { kind: "unreadable", reason: "the workspace is gone or is no longer a directory" };
    }
    return withOwnGitDir(mirror, workspace, (own) => collectFrom(own, options));
  });

const collectFrom = async (own: OwnGitDir, options: CollectOptions): Promise<Collected> => {
  const { git, mirror, workspace, start, artifact, runId, fence, signal } = options;
  const tips = await findTips(git, mirror, own, start, runId, signal);
  if (tips.head.kind === "unreadable") return unreadable(tips.head);
  const tip = tips.head.sha;

  const indexFile = await plainIndex(workspace);
  const snapshot = await snapshotTree({ git, own, workTree: workspace, indexFile, base: tip, artifact, signal });
  if (snapshot.kind === "unreadable") return unreadable(snapshot);
  const message = withRunTrailer(options.message, runId);
  const commit = await commitTree(git, own, snapshot.tree, [tip], message, signal);
  const imported = await importCommits(git, mirror, own, [commit], tips.have, "sound", signal);
  if (imported.kind === "unreadable") return unreadable(imported);

  // From here on the mirror's verified copy is looked at, not what the workspace claims.
  if (tip !== start && !(await mirror.isAncestor(start, tip, { signal }))) return { kind: "not_descended", tip };
  const changedPaths = await mirror.changedPaths(start, commit, { signal });

  const rest = {
    tip: commit,
    tree: snapshot.tree,
    others: tips.others,
    nested: snapshot.nested,
    have: [...tips.have, commit],
  };
  const wip = await writeWip({ git, mirror, own, workspace, runId, fence, signal, ...rest });
  // Last: whoever finds it looks into the workspace no more.
  await fence();
  await git.ok([...DURABLE, "update-ref", "--no-deref", runRef(runId), commit], { gitDir: mirror.gitDir, signal });
  const notes = [
    ...own.notes,
    ...tips.notes,
    ...snapshot.notes,
    ...(wip.kind === "unreadable" ? [wip.reason] : wip.notes),
  ];
  return {
    kind: "collected",
    commit,
    changedPaths,
    notes: boundedNotes(notes),
    wipRef: wip.kind === "unreadable" ? null : wip.ref,
  };
};

const unreadable = ({ reason }: Unreadable): Unreadable => ({ kind: "unreadable", reason: printable(reason) });
