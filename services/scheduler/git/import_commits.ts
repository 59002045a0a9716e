import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { Git } from "@orchestrator/shared/git/run_git.ts";
import { DURABLE, type Mirror } from "./mirror.ts";
import type { OwnGitDir } from "./own_git_dir.ts";
import { runOnTheirs, type Unreadable } from "./run_on_theirs.ts";

/** Large work takes its time; the finalizer has a limit of its own above this. */
const TIMEOUT_MS = 10 * 60_000;

/**
 * `sound`: objects must also be what git's own check lets pass, for what may get into a branch. `whole`: nothing may be
 * missing, for what is only kept.
 */
export type ImportCheck = "sound" | "whole";

const CHECKS = { sound: "--strict", whole: "--check-self-contained-and-connected" } as const;
/** The exit code of `git index-pack` for a whole pack that builds on objects which were there before. */
const BUILDS_ON_OTHERS = 1;

/**
 * Copies commits with all they need, beyond what the commits `have` bring, from a workspace into the mirror. Every object
 * is hashed and checked on the way, and the pack appears in the mirror only whole: what claims to be something else, or
 * lacks a part, is `unreadable`.
 */
export const importCommits = async (
  git: Git,
  mirror: Mirror,
  own: OwnGitDir,
  commits: readonly string[],
  have: readonly string[],
  check: ImportCheck,
  signal: AbortSignal | undefined,
): Promise<{ kind: "imported" } | Unreadable> => {
  const pack = join(own.scratch, "pack");
  try {
    const packed = await runOnTheirs(git, ["pack-objects", "--quiet", "--revs", "--stdout", "--delta-base-offset"], {
      gitDir: own.gitDir,
      signal,
      input: [...commits, ...have.map((sha) => `^${sha}`), ""].join("\n"),
      outputFile: pack,
      timeoutMs: TIMEOUT_MS,
    });
    if (packed.kind === "unreadable") return packed;
    const args = [...DURABLE, "index-pack", "--stdin", CHECKS[check]];
    const options = { gitDir: mirror.gitDir, signal, inputFile: pack, timeoutMs: TIMEOUT_MS };
    const indexed = await runOnTheirs(git, args, options, check === "whole" ? [0, BUILDS_ON_OTHERS] : [0]);
    return indexed.kind === "unreadable" ? indexed : { kind: "imported" };
  } finally {
    await rm(pack, { force: true });
  }
};
