import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Git } from "@orchestrator/shared/git/run_git.ts";
import { removeTree } from "@orchestrator/shared/remove_tree.ts";
import { kindBelow } from "./careful_files.ts";
import { writeRef } from "./make_git_dir.ts";

/** The ref by which git takes another commit for this one; the services' own commands do not look at such refs. */
export const replaceRef = (commit: string): string => `refs/replace/${commit}`;

/**
 * Takes the artifact of an earlier round out of a workspace's files and makes its folder, without leaving the workspace through a
 * link. Where `start` has it, a checkout, a reset or a stash would bring an old verdict back. So in this clone a commit stands in
 * for `start` that is the same but for the artifact: HEAD is `start`, and whatever the agent has git do begins without it.
 * @returns what kept it from being taken out, for people.
 */
export const takeOutArtifact = async (
  git: Git,
  workspace: string,
  { start, artifact }: { start: string; artifact: string },
  signal: AbortSignal | undefined,
): Promise<string[]> => {
  await takeOutOfStart(git, workspace, { start, artifact }, signal);
  const { detour } = await kindBelow(workspace, artifact);
  if (detour !== null) {
    return [`${detour} is not a directory in this branch: no artifact can stand at ${artifact} until it is`];
  }
  await removeTree(join(workspace, artifact));
  await mkdir(join(workspace, artifact, ".."), { recursive: true });
  return [];
};

const takeOutOfStart = async (
  git: Git,
  workspace: string,
  { start, artifact }: { start: string; artifact: string },
  signal: AbortSignal | undefined,
): Promise<void> => {
  const gitDir = join(workspace, ".git");
  const options = { gitDir, workTree: workspace, signal, env: { GIT_LITERAL_PATHSPECS: "1" } };
  if ((await git.ok(["ls-tree", "-z", "--full-tree", start, "--", artifact], options)) === "") return;
  await git.ok(["rm", "-r", "--cached", "--quiet", "--", artifact], options);
  const tree = (await git.ok(["write-tree"], options)).trim();
  // Header and message are whatever bytes they are; the tree comes first.
  const original = await git.bytes(["cat-file", "commit", start], options);
  const input = Buffer.concat([Buffer.from(`tree ${tree}`), original.subarray(original.indexOf("\n"))]);
  const standIn = (await git.ok(["hash-object", "-t", "commit", "-w", "--stdin"], { ...options, input })).trim();
  await writeRef(gitDir, replaceRef(start), standIn);
};
