import type { Git } from "@orchestrator/shared/git/run_git.ts";
import { DURABLE, type Mirror } from "./mirror.ts";
import { asideRef, runRef, wipRef } from "./refs.ts";

export interface SetAsideOptions {
  git: Git;
  mirror: Mirror;
  /** A run that has not begun. */
  runId: number;
  /** Throws where this scheduler has been superseded; called right before anything moves. */
  fence: () => Promise<void>;
  signal?: AbortSignal | undefined;
}

/**
 * Sees to it that nothing stands under a run's number before the run has begun. What does is another's, since a database that
 * was begun anew, or put back from an older backup than the mirror, gives numbers a second time: it would pass for this run's
 * work, and what this one leaves would not be kept. It is moved, in one transaction, to where its commit alone names it.
 * Called inside `mirror.exclusive`; one look-up where there is nothing.
 * @returns where it stands now.
 */
export const setAside = async ({ git, mirror, runId, fence, signal }: SetAsideOptions): Promise<string[]> => {
  const refs = [runRef(runId), wipRef(runId)];
  const options = { gitDir: mirror.gitDir, signal };
  const listing = await git.ok(["cat-file", "--batch-check=%(objectname)"], {
    ...options,
    input: `${refs.join("\n")}\n`,
  });
  const found = listing
    .split("\n")
    .flatMap((answer, n) => (/^[0-9a-f]+$/.test(answer) ? [{ ref: refs[n]!, commit: answer }] : []));
  if (found.length === 0) return [];
  // Both may stand at one commit.
  const commits = [...new Set(found.map(({ commit }) => commit))];
  const commands = [
    ...commits.map((commit) => `update ${asideRef(runId, commit)} ${commit}`),
    ...found.map(({ ref, commit }) => `delete ${ref} ${commit}`),
  ];
  await fence();
  await git.ok([...DURABLE, "update-ref", "--no-deref", "--stdin"], { ...options, input: `${commands.join("\n")}\n` });
  return commits.map((commit) => asideRef(runId, commit));
};
