import { findBaseTip } from "@orchestrator/shared/git/base_tip.ts";
import type { Abortable } from "@orchestrator/shared/git/commit_reader.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";
import type { Mirror } from "./mirror.ts";

/** Where a base branch stands (see `findBaseTip`). Throws a `ToolError` of class `git_ref` where it does not exist. */
export const baseTip = async (mirror: Mirror, baseBranch: string, options: Abortable = {}): Promise<string> => {
  const tip = await findBaseTip(mirror, baseBranch, mirror.repo.push, options);
  if (tip !== null) return tip;
  throw new ToolError(
    "git_ref",
    `the base branch "${baseBranch}" does not exist in repository "${mirror.name}"; create it there, or name another one`,
  );
};
