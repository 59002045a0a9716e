import { mkdir, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Git } from "@orchestrator/shared/git/run_git.ts";
import { noPoints, type Points } from "@orchestrator/shared/points.ts";
import { removeTree } from "@orchestrator/shared/remove_tree.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";
import { kindOf, withDiskErrors } from "./careful_files.ts";
import { checkOut } from "./check_out.ts";
import { takeOutArtifact } from "./earlier_artifact.ts";
import { makeGitDir } from "./make_git_dir.ts";
import type { Mirror } from "./mirror.ts";
import { isHalfMade, makingMarker, savedIndex } from "./workspace_files.ts";

export interface WorkspaceOptions {
  git: Git;
  mirror: Mirror;
  workspacesDir: string;
  workItemId: string;
  /** Checked out in the workspace, at `start`. */
  branch: string;
  baseBranch: string;
  /** A commit that the mirror has. */
  start: string;
  /** Path in the repository of the artifact that an earlier round of the stage may have left. */
  staleArtifact: string;
  /** Refs of the mirror that the workspace has too, beside the remote's branches: the work of an earlier attempt. */
  refs?: readonly string[];
  /** `launch.workspace_half_made`; the key is the work item. */
  points?: Points;
  signal?: AbortSignal | undefined;
}

export interface Workspace {
  path: string;
  /** What is not as a run may expect it; for people. */
  notes: string[];
}

/**
 * Makes a task's workspace ready for a run: a clone with a git directory of its own, its branch at `start`, nothing left of
 * an earlier run but what the repository ignores (caches, installed packages). The stage's earlier artifact is taken out,
 * and its folder is there. Nothing of an earlier run may be alive in it. Throws a `ToolError` for failures of git and disk,
 * and the signal's reason on abort; a workspace that was left half-made by that is made anew the next time.
 */
export const prepareWorkspace = (options: WorkspaceOptions): Promise<Workspace> =>
  withDiskErrors("preparing the workspace", async () => {
    const path = workspacePath(options.workspacesDir, options.workItemId);
    await mkdir(options.workspacesDir, { recursive: true });
    const isReused = await clearForReuse(path);
    await removeTree(makingMarker(path));
    await writeFile(makingMarker(path), "");
    options.signal?.throwIfAborted();
    await makeGitDir(path, options);
    await (options.points ?? noPoints).reach("launch.workspace_half_made", options.workItemId);
    await checkOut(path, isReused, options);
    const { git, start, staleArtifact: artifact, signal } = options;
    const notes = await takeOutArtifact(git, path, { start, artifact }, signal);
    await removeTree(makingMarker(path));
    return { path, notes };
  });

/** Removes a task's workspace and all that is kept beside it. */
export const removeWorkspace = async (workspacesDir: string, workItemId: string): Promise<void> => {
  const path = workspacePath(workspacesDir, workItemId);
  for (const one of [path, `${savedIndex(path)}.lock`, savedIndex(path), makingMarker(path)]) await removeTree(one);
};

export const workspacePath = (workspacesDir: string, workItemId: string): string => {
  if (basename(workItemId) !== workItemId || workItemId.startsWith(".")) {
    throw new ToolError(
      "workspace",
      `"${workItemId}" is not the name of a directory; a work item's id begins with a letter`,
    );
  }
  return join(workspacesDir, workItemId);
};

/** True if a whole workspace is there, of which the files are used again; its git directory never is. */
const clearForReuse = async (path: string): Promise<boolean> => {
  if ((await isHalfMade(path)) || (await kindOf(path)) !== "directory") {
    await removeTree(path);
    await removeTree(savedIndex(path));
    await mkdir(path);
    return false;
  }
  await removeTree(join(path, ".git"));
  return true;
};
