import { type Git, gitFailure } from "./run_git.ts";

export interface Abortable {
  signal?: AbortSignal | undefined;
}

/** Questions about the commits of one repository. Each throws what `gitFailure` makes of a git that gave no answer. */
export interface CommitReader {
  /** The commit that a full ref name or an object name stands for; null if there is none. */
  resolve(ref: string, options?: Abortable): Promise<string | null>;
  isAncestor(ancestor: string, descendant: string, options?: Abortable): Promise<boolean>;
  /** The best common ancestor; null if the two have none. */
  mergeBase(a: string, b: string, options?: Abortable): Promise<string | null>;
}

export const createCommitReader = (git: Git, gitDir: string): CommitReader => {
  /** Null is git's "no" (exit code 1); everything else but a success is no answer at all. */
  const ask = async (args: readonly string[], { signal }: Abortable = {}): Promise<string | null> => {
    const result = await git.run(args, { gitDir, signal });
    if (result.code === 0) return result.stdout.toString("utf8").trim();
    if (result.code === 1) return null;
    throw gitFailure(args, { gitDir, signal }, result);
  };
  return {
    resolve: (ref, options) =>
      ask(["rev-parse", "--verify", "--quiet", "--end-of-options", `${ref}^{commit}`], options),
    isAncestor: async (ancestor, descendant, options) =>
      (await ask(["merge-base", "--is-ancestor", ancestor, descendant], options)) !== null,
    mergeBase: (a, b, options) => ask(["merge-base", a, b], options),
  };
};
