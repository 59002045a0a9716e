import { constants } from "node:fs";
import { copyFile, mkdir, readdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { findBaseTip } from "@orchestrator/shared/git/base_tip.ts";
import { localBranch, remoteBranch } from "@orchestrator/shared/git/branch_refs.ts";
import type { Git } from "@orchestrator/shared/git/run_git.ts";
import type { Mirror } from "./mirror.ts";

/** Who an agent's commits are by, unless its environment says otherwise. */
const AGENT_IDENTITY = { name: "Orchestrator agent", email: "agent@localhost" } as const;

/**
 * No remote is configured: there are no credentials to find and nothing to push to. Nothing runs in the background, since
 * the directory is made anew for every run.
 */
const CONFIG = `[core]
	repositoryFormatVersion = 0
	fileMode = true
	bare = false
	logAllRefUpdates = true
[user]
	name = ${AGENT_IDENTITY.name}
	email = ${AGENT_IDENTITY.email}
[gc]
	auto = 0
[maintenance]
	auto = false
`;

export interface GitDirOptions {
  git: Git;
  mirror: Mirror;
  branch: string;
  baseBranch: string;
  start: string;
  refs?: readonly string[];
  signal?: AbortSignal | undefined;
}

/** So many files are copied at a time. */
const COPIES = 16;
/** How often the mirror may be repacked while its objects are being copied. */
const TRIES = 3;

/**
 * Writes a git directory at `<path>/.git` that shares nothing with the mirror: objects copied (by reference where the file
 * system can), the remote's branches as remote-tracking refs, the base branch among them where it really stands, and `branch` at
 * `start`.
 */
export const makeGitDir = async (path: string, o: GitDirOptions): Promise<void> => {
  const gitDir = join(path, ".git");
  for (const folder of ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info"]) {
    await mkdir(join(gitDir, folder), { recursive: true });
  }
  // The refs first: others fetch into the mirror meanwhile, and it only ever gains objects, so what is named is copied.
  const refs = await packedRefs(o);
  const base = await findBaseTip(o.mirror, o.baseBranch, o.mirror.repo.push, { signal: o.signal });
  await copyObjects(join(o.mirror.gitDir, "objects"), join(gitDir, "objects"), o.signal);
  await writeFile(join(gitDir, "packed-refs"), refs);
  await writeRef(gitDir, "refs/remotes/origin/HEAD", `ref: ${remoteBranch(o.baseBranch)}`);
  // A repository that is not pushed has its base branch in the mirror alone. A ref of its own goes before a packed one.
  if (base !== null) await writeRef(gitDir, remoteBranch(o.baseBranch), base);
  await writeFile(join(gitDir, "config"), CONFIG);
  await writeFile(join(gitDir, "HEAD"), `ref: ${localBranch(o.branch)}\n`);
};

/** Writes a ref of a git directory that nobody else works in yet. */
export const writeRef = async (gitDir: string, ref: string, value: string): Promise<void> => {
  await mkdir(dirname(join(gitDir, ref)), { recursive: true });
  await writeFile(join(gitDir, ref), `${value}\n`);
};

const packedRefs = async ({ git, mirror, branch, start, refs = [], signal }: GitDirOptions): Promise<Buffer> => {
  const args = ["for-each-ref", "--format=%(objectname) %(refname)", "refs/remotes/origin", ...refs];
  const listing = await git.bytes(args, { gitDir: mirror.gitDir, signal });
  // Not sorted, and said so by the header's absence: git sorts what it reads.
  return Buffer.concat([Buffer.from(`${start} ${localBranch(branch)}\n`), listing]);
};

/** Copies loose objects and packs. A repack of the mirror meanwhile takes files away: then it is looked at again. */
const copyObjects = async (from: string, to: string, signal: AbortSignal | undefined): Promise<void> => {
  for (let tries = 1; ; tries++) {
    try {
      await copyAll(from, to, await objectFiles(from, to), signal);
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT" || tries === TRIES) throw error;
    }
  }
};

const objectFiles = async (from: string, to: string): Promise<string[]> => {
  const files: string[] = [];
  for (const folder of await readdir(from)) {
    if (!/^[0-9a-f]{2}$/.test(folder)) continue;
    const names = await readdir(join(from, folder));
    await mkdir(join(to, folder), { recursive: true });
    files.push(...names.filter((name) => /^[0-9a-f]+$/.test(name)).map((name) => join(folder, name)));
  }
  // Only packs with an index: others are still being written.
  const packs = new Set(await readdir(join(from, "pack")));
  for (const name of packs) {
    if (!/^pack-[0-9a-f]+\.idx$/.test(name) || !packs.has(name.replace(/idx$/, "pack"))) continue;
    files.push(join("pack", name.replace(/idx$/, "pack")), join("pack", name));
  }
  return files;
};

const copyAll = async (
  from: string,
  to: string,
  files: readonly string[],
  signal: AbortSignal | undefined,
): Promise<void> => {
  const rest = files.values();
  const failures: unknown[] = [];
  const copyNext = async (): Promise<void> => {
    for (const file of rest) {
      if (failures.length > 0) return;
      try {
        signal?.throwIfAborted();
        await copyFile(join(from, file), join(to, file), constants.COPYFILE_FICLONE);
      } catch (error) {
        failures.push(error);
      }
    }
  };
  // All have ended before an error is thrown, so that nothing is written behind the caller's back.
  await Promise.all(Array.from({ length: COPIES }, copyNext));
  if (failures.length > 0) throw failures[0];
};
