import type { CommittedFile } from "@orchestrator/shared/artifact.ts";
import { findBaseTip } from "@orchestrator/shared/git/base_tip.ts";
import { createCommitReader } from "@orchestrator/shared/git/commit_reader.ts";
import { readCommittedFile } from "@orchestrator/shared/git/read_committed_file.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";
import type { Mirror } from "./checkout.ts";
import { MAX_PLAN_BYTES, PLAN_PATH, type PlanReading, readPlan } from "./plan.ts";

export interface LoadedPlan {
  reading: PlanReading;
  /** Sentences for the artifact and the event: a branch that brings a plan of its own says how it is to be judged. */
  notes: string[];
}

/**
 * Reads the plan from the commit or, with `from: "base"`, from the base branch as the mirror last saw it.
 * @throws {ToolError} where the mirror cannot be read, or does not have the base branch that the plan is to come from.
 */
export const loadPlan = async (options: {
  mirror: Mirror;
  commit: string;
  baseBranch: string;
  from: "branch" | "base";
  signal: AbortSignal;
}): Promise<LoadedPlan> => {
  const { mirror, commit, baseBranch, from, signal } = options;
  const commits = createCommitReader(mirror.git, mirror.gitDir);
  const base = await findBaseTip(commits, baseBranch, mirror.isPushed, { signal });
  if (base === null && from === "base") {
    throw new ToolError(
      "git_ref",
      `the plan is to come from ${baseBranch}, which is not in the mirror ${mirror.gitDir}`,
    );
  }
  const readAt = (at: string): Promise<CommittedFile> =>
    readCommittedFile(mirror.git, mirror.gitDir, at, PLAN_PATH, { maxBytes: MAX_PLAN_BYTES, signal });
  const ofBranch = await readAt(commit);
  const ofBase = base === null ? null : await readAt(base);
  const notes =
    ofBase === null || isSame(ofBranch, ofBase) ? [] : [`the branch's staging plan differs from that of ${baseBranch}`];
  if (from === "branch" || ofBase === null) return { reading: readPlan(ofBranch), notes };
  return { reading: readPlan(ofBase), notes: notes.map((note) => `${note}, which is the one that was used`) };
};

const isSame = (a: CommittedFile, b: CommittedFile): boolean => {
  if (a.kind === "file" && b.kind === "file") return Buffer.compare(a.content, b.content) === 0;
  return a.kind === b.kind;
};
