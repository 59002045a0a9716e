import { ToolError } from "../tool_error.ts";
import { UnusableError } from "../unusable.ts";
import type { Git } from "./run_git.ts";

/** The first git that heeds `GIT_CONFIG_GLOBAL`: an older one would read configuration that nobody here wrote. */
export const OLDEST_GIT: GitVersion = { major: 2, minor: 32 };

export interface GitVersion {
  major: number;
  minor: number;
}

const INSTALL = `install git ${OLDEST_GIT.major}.${OLDEST_GIT.minor} or newer`;

const TIMEOUT_MS = 10_000;

/**
 * Asks the git program for its version.
 * @returns the version, with `text` as git writes it.
 * @throws {UnusableError} where there is no git, or one that is too old.
 */
export const checkGit = async (git: Git, signal?: AbortSignal): Promise<GitVersion & { text: string }> => {
  const said = await git.ok(["--version"], { timeoutMs: TIMEOUT_MS, signal }).catch((error: unknown) => {
    if (!(error instanceof ToolError)) throw error;
    throw new UnusableError(`git cannot be run (${error.message})`, INSTALL, { cause: error });
  });
  const [, text = said.trim(), major, minor] = /(([0-9]+)\.([0-9]+)\S*)/.exec(said) ?? [];
  const version = { text, major: Number(major), minor: Number(minor) };
  if (isAtLeast(version, OLDEST_GIT)) return version;
  throw new UnusableError(`git is version ${text}`, INSTALL);
};

/** False for a version that is not known. */
export const isAtLeast = (version: GitVersion, wanted: GitVersion): boolean =>
  version.major > wanted.major || (version.major === wanted.major && version.minor >= wanted.minor);
