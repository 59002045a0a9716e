import { copyFile, readdir, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import { type Git, type GitOptions, gitFailure } from "@orchestrator/shared/git/run_git.ts";
import { removeTree } from "@orchestrator/shared/remove_tree.ts";
import { kindBelow, kindOf } from "./careful_files.ts";
import { removeTraps } from "./remove_traps.ts";
import { plainIndex } from "./workspace_files.ts";

/** Writing a large repository's files takes its time. */
const TIMEOUT_MS = 10 * 60_000;

/**
 * Brings the files at `path` to commit `start`, through the git directory that was just made there. Files that the index of
 * the last time knows to be unchanged are not written again; untracked files are removed unless the repository ignores them.
 */
export const checkOut = async (
  path: string,
  isReused: boolean,
  o: { git: Git; start: string; signal?: AbortSignal | undefined },
): Promise<void> => {
  const { git, signal } = o;
  const gitDir = join(path, ".git");
  const indexFile = await plainIndex(path);
  const options: GitOptions = { gitDir, workTree: path, indexFile, signal, timeoutMs: TIMEOUT_MS };
  if (isReused) {
    await removeTraps(path);
    await emptySubmodules(git, path, options);
  }
  await removeTree(`${indexFile}.lock`);

  const args = ["read-tree", "--reset", "-u", o.start];
  const result = await git.run(args, options);
  if (result.code !== 0) {
    if (!isReused || result.aborted || result.timedOut) throw gitFailure(args, options, result);
    // Something that an earlier run left is in the way: begin from nothing but the new git directory.
    await emptyWorkspace(path, indexFile);
    await git.ok(args, options);
  } else if (isReused) {
    const cleaned = await git.run(["clean", "-ffdq"], options);
    if (cleaned.code !== 0) {
      if (cleaned.aborted || cleaned.timedOut) throw gitFailure(["clean"], options, cleaned);
      await emptyWorkspace(path, indexFile);
      await git.ok(args, options);
    }
  }
  await copyIndex(indexFile, join(gitDir, "index"));
};

/** The copy must not look newer than the original: by its age git tells which files may have changed since. */
const copyIndex = async (from: string, to: string): Promise<void> => {
  const { mtimeMs } = await stat(from);
  await copyFile(from, to);
  const seconds = Math.floor(mtimeMs) / 1000;
  await utimes(to, seconds, seconds);
};

/** Everything at `path` but the git directory. */
const emptyWorkspace = async (path: string, indexFile: string): Promise<void> => {
  await removeTree(indexFile);
  for (const name of await readdir(path)) {
    if (name !== ".git") await removeTree(join(path, name));
  }
};

/** A submodule's files belong to a git directory that was removed with the workspace's own: they are fetched anew. */
const emptySubmodules = async (git: Git, path: string, options: GitOptions): Promise<void> => {
  if ((await kindOf(join(path, ".gitmodules"))) === "absent" || (await kindOf(options.indexFile!)) !== "file") return;
  const listing = await git.run(["ls-files", "-z", "--stage"], options);
  // An index that cannot be read is made anew by what follows.
  if (listing.code !== 0) return;
  for (const entry of listing.stdout.toString("utf8").split("\0")) {
    if (!entry.startsWith("160000 ")) continue;
    const folder = entry.slice(entry.indexOf("\t") + 1);
    if ((await kindBelow(path, folder)).kind !== "directory") continue;
    for (const name of await readdir(join(path, folder))) await removeTree(join(path, folder, name));
  }
};
