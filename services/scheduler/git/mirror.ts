import { join } from "node:path";
import type { Config, RepoConfig } from "@orchestrator/shared/config/config.ts";
import { type Abortable, type CommitReader, createCommitReader } from "@orchestrator/shared/git/commit_reader.ts";
import { type Git, gitFailure } from "@orchestrator/shared/git/run_git.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";
import { kindOf, withDiskErrors } from "./careful_files.ts";
import { FifoLock, type WaitOptions } from "./fifo_lock.ts";
import { removeStaleFiles } from "./stale_files.ts";
import { type Tidied, tidyRepository } from "./tidy_repository.ts";

/**
 * The bare repository that stands for one configured repository. What writes (`fetch`, `updateRef`, `tidy`, and the
 * functions beside this file that collect, keep, commit and publish) is called inside `exclusive`; what reads needs no lock.
 */
export interface Mirror extends CommitReader {
  readonly name: string;
  readonly gitDir: string;
  readonly repo: RepoConfig;
  /**
   * Runs `work` alone; others wait in the order of asking. In-process, since the scheduler is the only writer: a dead one
   * keeps nothing. Whoever waits can give up by `signal`. Not reentrant.
   * @param options `fence` throws where this scheduler has been superseded; asked before anything that an earlier failure left
   * is removed, since it may be what another scheduler is at work on.
   */
  exclusive<T>(work: () => Promise<T>, options?: WaitOptions & { fence?: () => Promise<void> }): Promise<T>;
  /** Removes the lock files and half-written objects that a killed git left; answers with their names. */
  clearStaleLocks(): Promise<string[]>;
  /**
   * Makes the repository if there is none, and brings `refs/remotes/origin/*` to what the remote has now. Local heads and
   * `refs/orchestrator/` are not touched. Throws a `ToolError` of class `git_fetch`.
   */
  fetch(options?: Abortable): Promise<void>;
  /** Sets a ref if it still is `from` (null: if it does not exist); false if it is something else. */
  updateRef(ref: string, to: string, from: string | null, options?: Abortable): Promise<boolean>;
  /** Paths that differ between two commits, both names of a renamed file among them. */
  changedPaths(from: string, to: string, options?: Abortable): Promise<string[]>;
  hasCommit(sha: string, options?: Abortable): Promise<boolean>;
  /** Packs what has piled up, if enough has; cheap otherwise. Nothing is thrown away. For quiet moments. */
  tidy(options?: Abortable): Promise<Tidied>;
}

export interface Mirrors {
  /** Throws for a name that the configuration does not have: what a request may name has been checked at the door. */
  get(name: string): Mirror;
}

/** Fetching a large repository for the first time takes its time; the launch has a timeout of its own above this. */
const FETCH_TIMEOUT_MS = 10 * 60_000;
const MAX_PATHS_BYTES = 256 * 1024 * 1024;

/** What is recorded in the database must be on the disk as well when the power goes. */
export const DURABLE = ["-c", "core.fsync=all"] as const;

const zeros = (sha: string): string => "0".repeat(sha.length);

export const createMirrors = (options: { git: Git; reposDir: string; repos: Config["repos"] }): Mirrors => {
  const mirrors = new Map(
    Object.entries(options.repos).map(([name, repo]) => [
      name,
      createMirror(options.git, name, repo, join(options.reposDir, `${name}.git`)),
    ]),
  );
  return {
    get: (name) => {
      const mirror = mirrors.get(name);
      if (mirror === undefined) {
        throw new ToolError(
          "unknown_repo",
          `the configuration has no repository "${name}" any more; put it back under repos`,
        );
      }
      return mirror;
    },
  };
};

const createMirror = (git: Git, name: string, repo: RepoConfig, gitDir: string): Mirror => {
  const lock = new FifoLock();
  // Set when a writer failed: its git may have been killed and have left its lock files.
  let suspect = false;

  const exists = async (): Promise<boolean> =>
    (await kindOf(join(gitDir, "HEAD"))) === "file" &&
    (await kindOf(join(gitDir, "config"))) === "file" &&
    (await kindOf(join(gitDir, "refs"))) === "directory" &&
    (await kindOf(join(gitDir, "objects"))) === "directory";

  const mirror: Mirror = {
    ...createCommitReader(git, gitDir),
    name,
    gitDir,
    repo,

    exclusive: (work, waiting) =>
      lock.run(async () => {
        if (suspect) {
          await waiting?.fence?.();
          await mirror.clearStaleLocks();
        }
        suspect = true;
        const result = await work();
        suspect = false;
        return result;
      }, waiting),

    clearStaleLocks: () =>
      withDiskErrors(`removing what a killed git left in ${name}`, async () => {
        const removed = await removeStaleFiles(gitDir);
        suspect = false;
        return removed;
      }),

    fetch: ({ signal } = {}) =>
      withDiskErrors(`fetching ${name}`, async () => {
        if (!(await exists())) {
          const args = ["init", "--quiet", "--bare", "--template=", "--initial-branch=main", gitDir];
          await git.ok(args, { gitDir, cwd: "/", signal, errorCode: "git_fetch" });
        }
        await git.ok(
          // One pack for what came, instead of thousands of files; `--prune` concerns what the refspec writes to.
          ["-c", "fetch.unpackLimit=1", "fetch", "--quiet", "--prune", "--no-tags", "--no-write-fetch-head"].concat([
            "--no-auto-maintenance",
            "--no-show-forced-updates",
            "--",
            repo.url,
            "+refs/heads/*:refs/remotes/origin/*",
          ]),
          { gitDir, signal, network: true, timeoutMs: FETCH_TIMEOUT_MS, errorCode: "git_fetch" },
        );
      }),

    updateRef: async (ref, to, from, { signal } = {}) => {
      const args = [...DURABLE, "update-ref", "--no-deref", ref, to, from ?? zeros(to)];
      const result = await git.run(args, { gitDir, signal });
      if (result.code === 0) return true;
      // Lost against another value, or a failure of another kind: what stands there now tells.
      if (!result.aborted && !result.timedOut && (await mirror.resolve(ref, { signal })) !== from) return false;
      throw gitFailure(args, { gitDir, signal }, result);
    },

    changedPaths: async (from, to, { signal } = {}) => {
      const args = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", from, to];
      const names = await git.ok(args, { gitDir, signal, maxOutputBytes: MAX_PATHS_BYTES });
      return names.split("\0").slice(0, -1);
    },

    hasCommit: async (sha, { signal } = {}) => {
      const result = await git.run(["cat-file", "-e", `${sha}^{commit}`], { gitDir, signal });
      if (result.aborted || result.timedOut) throw gitFailure(["cat-file"], { gitDir, signal }, result);
      return result.code === 0;
    },

    tidy: ({ signal } = {}) => tidyRepository(git, gitDir, signal),
  };
  return mirror;
};
