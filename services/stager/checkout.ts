import { access, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Git, gitFailure } from "@orchestrator/shared/git/run_git.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";

/** Writing out a large repository takes its time. */
const CHECKOUT_TIMEOUT_MS = 10 * 60_000;

const OBJECT_NAME = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;

export interface Mirror {
  git: Git;
  /** The bare repository that the scheduler keeps; it is read, never written. */
  gitDir: string;
  /** `repos.<name>.push`: without it the mirror's own branches may be ahead of the remote's. */
  isPushed: boolean;
}

/** @throws {ToolError} `git_ref` where the mirror does not hold the commit, `git` where it could not be asked. */
export const requireCommit = async (
  { git, gitDir }: Mirror,
  commit: string | null,
  signal: AbortSignal,
): Promise<string> => {
  if (commit === null || !OBJECT_NAME.test(commit)) {
    throw new ToolError("git_ref", `the task's head is ${commit ?? "not set"}, expected a commit`);
  }
  await access(gitDir).catch((cause: NodeJS.ErrnoException) => {
    throw new ToolError(
      "git_ref",
      `the mirror ${gitDir} cannot be read (${cause.code}): is ORCH_REPOS_DIR the scheduler's, and its volume mounted?`,
      { cause },
    );
  });
  const args = ["cat-file", "-e", `${commit}^{commit}`];
  const result = await git.run(args, { gitDir, signal });
  // A git that did not come to its end has not said that the commit is missing.
  if (result.code === null) throw gitFailure(args, { gitDir, signal }, result);
  if (result.code !== 0) {
    const said = result.stderr.trim();
    throw new ToolError("git_ref", `commit ${commit} is not in the mirror ${gitDir}${said === "" ? "" : `: ${said}`}`);
  }
  return commit;
};

/**
 * Writes the commit's files to `folder`, a directory that does not exist yet. It gets a git directory of its own, whose HEAD
 * is the commit and which borrows the mirror's objects, so that steps can use git and nothing is written to the mirror.
 * @throws {ToolError} `git_checkout`, `no_space`.
 */
export const checkOut = async (options: {
  mirror: Mirror;
  commit: string;
  folder: string;
  signal: AbortSignal;
}): Promise<void> => {
  const { mirror, commit, folder, signal } = options;
  const gitDir = join(folder, ".git");
  await mkdir(folder);
  const common = { gitDir, cwd: folder, signal, errorCode: "git_checkout" };
  const format = commit.length === 64 ? ["--object-format=sha256"] : [];
  await mirror.git.ok(["init", "--quiet", "--template=", ...format], common);
  await mkdir(join(gitDir, "objects", "info"), { recursive: true });
  await writeFile(join(gitDir, "objects", "info", "alternates"), `${join(mirror.gitDir, "objects")}\n`);
  await mirror.git.ok(["checkout", "--quiet", "--force", "--detach", commit], {
    ...common,
    workTree: folder,
    timeoutMs: CHECKOUT_TIMEOUT_MS,
  });
};
