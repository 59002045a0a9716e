import type { CommittedFile } from "@orchestrator/shared/artifact.ts";
import { readCommittedFile } from "@orchestrator/shared/git/read_committed_file.ts";
import type { Git } from "@orchestrator/shared/git/run_git.ts";
import { PROMPT_OVERRIDE } from "@orchestrator/shared/outcome_class.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";
import { baseTip } from "./git/base_tip.ts";
import type { Mirror } from "./git/mirror.ts";

/** As large as a prompt may be in an argument, so that a repository's text works with every kind of agent program. */
const MAX_BYTES = 64 * 1024;

/**
 * The text by which a repository replaces an agent's role: `.orchestrator/prompts/<agent>.md` on its base branch. Never the
 * task's branch: what an agent writes must not become the next agent's orders.
 * @returns null where the repository has none.
 * @throws {ToolError} `prompt_override` where what stands there is no such text: an agent must not be sent off under other
 * orders than the repository's people think; `git_ref` where there is no base branch.
 */
export const readPromptOverride = async (
  git: Git,
  mirror: Mirror,
  baseBranch: string,
  agent: string,
  signal: AbortSignal,
): Promise<string | null> => {
  const base = await baseTip(mirror, baseBranch, { signal });
  const path = `.orchestrator/prompts/${agent}.md`;
  const file = await readCommittedFile(git, mirror.gitDir, base, path, { maxBytes: MAX_BYTES, signal });
  if (file.kind === "missing") return null;
  const text = file.kind === "file" ? decode(file.content) : null;
  if (text !== null) return text;
  throw new ToolError(
    PROMPT_OVERRIDE,
    `${path} on ${baseBranch} of "${mirror.name}" is ${found(file)}, expected a regular file of UTF-8 text of at most ` +
      `${MAX_BYTES} bytes: correct it there, or remove it`,
  );
};

const decode = (content: Uint8Array): string | null => {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(content);
  } catch {
    return null;
  }
};

const found = (file: Exclude<CommittedFile, { kind: "missing" }>): string => {
  switch (file.kind) {
    case "file":
      return "not UTF-8";
    case "not_regular":
      return `no regular file (git mode ${file.mode})`;
    case "too_large":
      return `${file.bytes} bytes long`;
  }
};
