import { checkGit, isAtLeast } from "@orchestrator/shared/git/check_git.ts";
import { UnusableError } from "@orchestrator/shared/unusable.ts";
import type { Check } from "./checks.ts";
import { fail, ok, warn } from "./finding.ts";

/** `git merge-tree --write-tree` came with it. */
const MERGES_SINCE = { major: 2, minor: 38 };
/** `core.fsync` came with it: before, what is pushed may outlive what was recorded when the power goes. */
const SYNCS_SINCE = { major: 2, minor: 36 };

export const checkGitProgram: Check = async ({ config, git, signal }) => {
  try {
    const version = await checkGit(git, signal);
    const merging = Object.entries(config.repos).filter(([, repo]) => repo.merge !== "none");
    if (merging.length > 0 && !isAtLeast(version, MERGES_SINCE)) {
      const names = merging.map(([name]) => `repos.${name}.merge`).join(", ");
      return [fail("git", `version ${version.text}, but ${names} needs 2.38 or newer`, "install a newer git")];
    }
    if (!isAtLeast(version, SYNCS_SINCE)) {
      return [warn("git", `version ${version.text}`, "install 2.36 or newer: it can see that commits are on the disk")];
    }
    return [ok("git", `version ${version.text}`)];
  } catch (error) {
    if (error instanceof UnusableError) return [fail("git", error.found, error.todo)];
    throw error;
  }
};
