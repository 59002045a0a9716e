import { basename, dirname, join } from "node:path";
import { removeTree } from "@orchestrator/shared/remove_tree.ts";
import { kindOf } from "./careful_files.ts";

// Beside a workspace; a work item's id begins with a letter, so that these names are nobody's workspace.

/** Where the index of a workspace's last checkout is kept, out of the way of the workspace's own git directory. */
export const savedIndex = (workspace: string): string => join(dirname(workspace), `.${basename(workspace)}.index`);

/**
 * The same, ready to be used: what is no plain file there was put there by an agent, and git, which writes an index through a
 * link, must not be led somewhere else.
 */
export const plainIndex = async (workspace: string): Promise<string> => {
  const path = savedIndex(workspace);
  if ((await kindOf(path)) !== "file") await removeTree(path);
  return path;
};

/** Stands there while a workspace is being made: one beside which it is found is half-made. */
export const makingMarker = (workspace: string): string => join(dirname(workspace), `.${basename(workspace)}.making`);

/** The work item to which a name in the folder of workspaces belongs: a workspace's own, or that of a file beside it. */
export const itsWorkItem = (name: string): string => name.replace(/^\.(.+)\.(index|index\.lock|making)$/, "$1");

/** Whether the workspace was being made when that was cut short: what stands in it is nobody's work. */
export const isHalfMade = async (workspace: string): Promise<boolean> =>
  (await kindOf(makingMarker(workspace))) !== "absent";
