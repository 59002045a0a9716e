import { readCommittedFile } from "@orchestrator/shared/git/read_committed_file.ts";
import type { Git } from "@orchestrator/shared/git/run_git.ts";
import { baseTip } from "./git/base_tip.ts";
import type { Mirror } from "./git/mirror.ts";

/** As large as a prompt may be in an argument, so that a repository's text works with every kind of agent program. */
const MAX_BYTES = 64 * 1024;

/**
 * The text by which a repository replaces an agent's role: `.orchestrator/prompts/<agent>.md` on its base branch. Never the
 * task's branch: what an agent writes must not become the next agent's orders.
 * @returns null where the repository has none (or none that can be used).
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
  return file.kind === "file" ? new TextDecoder().decode(file.content) : null;
};
