import { join } from "node:path";
import type { Run } from "@orchestrator/shared/schemas/rows.ts";
import { findEarlierRun } from "@orchestrator/shared/storage/find_earlier_run.ts";
import type { ActiveRun } from "./active_runs.ts";
import type { Finalizing } from "./finalizer.ts";
import { type Collected, collectWork } from "./git/collect.ts";
import { commitMessage } from "./git/commit_message.ts";
import { keepWork } from "./git/keep_work.ts";
import { runRef, wipRef } from "./git/refs.ts";
import type { RunContext } from "./run_context.ts";
import type { RunPlace } from "./run_place.ts";

/** The run whose work stands in the workspace: the one at hand, or an earlier one that was cut short. */
type Author = Pick<Run, "id" | "stage" | "agent" | "attempt">;

export interface Work {
  place: RunPlace;
  workspace: string;
  author: Author;
}

export const workspaceOf = ({ config }: Pick<RunContext, "config">, { claim }: ActiveRun): string =>
  join(config.workspacesDir, claim.task.workItemId);

/** Takes the work of a run that exited 0 into the mirror. */
export const collect = (
  context: RunContext,
  run: ActiveRun,
  work: Work,
  finalizing: Finalizing,
): Promise<Collected> => {
  const { mirror, artifact, start } = work.place;
  const { id, stage, agent, attempt } = work.author;
  const message = commitMessage({
    subject: `${run.claim.task.workItemId}: ${stage}`,
    body: `Attempt ${attempt} by ${agent}.`,
    trailers: { "Orchestrator-Run": id },
  });
  const options = { git: context.git, mirror, workspace: work.workspace, start, artifact, message, runId: id };
  return mirror.exclusive(() => collectWork({ ...options, signal: finalizing.signal }), finalizing);
};

/** Keeps what a run without success left, for the next attempt and for people. */
export const keep = async (context: RunContext, work: Work, finalizing: Finalizing): Promise<void> => {
  const { mirror, start, artifact } = work.place;
  const options = { git: context.git, mirror, workspace: work.workspace, start, artifact, runId: work.author.id };
  const { ref, notes } = await mirror.exclusive(() => keepWork({ ...options, signal: finalizing.signal }), finalizing);
  if (ref !== null) context.log.info({ runId: work.author.id, ref, notes }, "kept what a run without success left");
};

export type Salvaged =
  /** An earlier run of this job exited 0 and was cut short after that: its work needs no agent any more. */
  | { kind: "collected"; commit: string }
  /** Where the earlier run's work is kept, if it left any. */
  | { kind: "kept"; wipRef: string | null };

/**
 * Looks after what the task's last run left, before the workspace is used again: nobody pays twice for work that an agent
 * has finished, and nothing that an agent left is thrown away.
 */
export const salvage = async (context: RunContext, run: ActiveRun, place: RunPlace): Promise<Salvaged> => {
  const { claim, signal } = run;
  const earlier = await findEarlierRun(context.storage, claim.task.id, claim.run.id);
  if (earlier === null) return { kind: "kept", wipRef: null };
  const { mirror } = place;
  const finishedHere = earlier.jobId === claim.job.id && earlier.exitCode === 0 && earlier.cutShort;
  const collected = await mirror.resolve(runRef(earlier.id), { signal });
  if (finishedHere && collected !== null) return { kind: "collected", commit: collected };

  const launching: Finalizing = { signal, onWait: () => undefined };
  const work: Work = { place, workspace: workspaceOf(context, run), author: earlier };
  if (finishedHere) {
    const taken = await collect(context, run, work, launching);
    if (taken.kind === "collected") return { kind: "collected", commit: taken.commit };
  }
  const kept = await mirror.resolve(wipRef(earlier.id), { signal });
  if (kept === null && collected === null) await keep(context, work, launching);
  const found = await mirror.resolve(wipRef(earlier.id), { signal });
  return { kind: "kept", wipRef: found === null ? null : wipRef(earlier.id) };
};
