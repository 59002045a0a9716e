import { type Git, type GitOptions, gitFailure } from "@orchestrator/shared/git/run_git.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";

/** What an agent left cannot be read; `reason` is for people. */
export interface Unreadable {
  kind: "unreadable";
  reason: string;
}

/**
 * Runs a command over what an agent left. That it fails (ends with none of `successCodes`) is then the fault of what was left, and an answer; a full disk, a
 * timeout, an abort or a kill is not, and is thrown.
 */
export const runOnTheirs = async (
  git: Git,
  args: readonly string[],
  options: GitOptions,
  successCodes: readonly number[] = [0],
): Promise<{ kind: "done"; stdout: string } | Unreadable> => {
  const result = await git.run(args, options);
  if (result.code !== null && successCodes.includes(result.code))
    return { kind: "done", stdout: result.stdout.toString("utf8") };
  const failure = gitFailure(args, options, result);
  const isSurroundings = !(failure instanceof ToolError) || failure.code === "no_space";
  if (isSurroundings || result.code === null || result.timedOut || result.aborted) throw failure;
  return { kind: "unreadable", reason: failure.message };
};
