import type { Outcome } from "@orchestrator/shared/domain.ts";
import { endProcesses } from "@orchestrator/shared/process/end_processes.ts";
import type { Run } from "@orchestrator/shared/schemas/rows.ts";
import { type EarlierRun, findEarlierRun } from "@orchestrator/shared/storage/find_earlier_run.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";
import type { ActiveRun } from "./active_runs.ts";
import type { Finalizing } from "./finalizer.ts";
import { type Collected, collectWork } from "./git/collect.ts";
import { commitMessage } from "./git/commit_message.ts";
import { isKept } from "./git/is_kept.ts";
import { keepWork } from "./git/keep_work.ts";
import { runRef, wipRef } from "./git/refs.ts";
import { workspacePath } from "./git/workspace.ts";
import { isHalfMade } from "./git/workspace_files.ts";
import { fenceOf, type RunContext, writingIn } from "./run_context.ts";
import type { RunPlace } from "./run_place.ts";

/** The run whose work stands in the workspace: the one at hand, or an earlier one that was cut short. */
type Author = Pick<Run, "id" | "stage" | "agent" | "attempt">;

export interface Work {
  place: RunPlace;
  workspace: string;
  author: Author;
}

/** What there is to keep. Of a stage that the pipeline has no more the artifact is not known. */
export interface Left {
  place: Pick<RunPlace, "mirror" | "start"> & { artifact: string | null };
  workspace: string;
  author: Pick<Author, "id">;
}

/** Takes the work of a run that exited 0 into the mirror. */
export const collect = async (
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
  });
  const options = { git: context.git, mirror, workspace: work.workspace, start, artifact, message, runId: id };
  const collected = await writingIn(
    context,
    mirror,
    (fence) => collectWork({ ...options, fence, signal: finalizing.signal }),
    finalizing,
  );
  if (collected.kind === "collected") {
    const aside = { what: `what of run ${id} is not part of its work`, ref: collected.wipRef, notes: collected.notes };
    tell(context, run, work.author, "not all that a run left is part of its work, or not as it was", aside);
  }
  return collected;
};

/**
 * Keeps what a run without success left, for the next attempt and for people.
 * @param run the run at hand, if there is one.
 */
export const keep = async (
  context: RunContext,
  run: ActiveRun | null,
  work: Left,
  finalizing: Finalizing,
): Promise<void> => {
  const { mirror, start, artifact } = work.place;
  const { id } = work.author;
  const options = { git: context.git, mirror, workspace: work.workspace, start, artifact, runId: id };
  const kept = await writingIn(
    context,
    mirror,
    (fence) => keepWork({ ...options, fence, signal: finalizing.signal }),
    finalizing,
  );
  const left = { what: `what run ${id} left`, ...kept };
  tell(context, run, work.author, "kept what a run without success left", left);
};

/** Says what is kept elsewhere, or was not taken: in the service's log, and in the log of the run at hand, where people look. */
const tell = (
  { log, runLogs }: RunContext,
  run: ActiveRun | null,
  author: Pick<Author, "id">,
  message: string,
  { what, ref, notes }: { what: string; ref: string | null; notes: readonly string[] },
): void => {
  const lines = ref === null ? notes : [...notes, `${what} is kept under ${ref}`];
  if (lines.length === 0) return;
  log[notes.length === 0 ? "info" : "warn"]({ runId: author.id, ref, notes }, message);
  const text = lines.map((line) => `[orchestrator] ${line}\n`).join("");
  if (run !== null) runLogs.get(run.claim.run.id)?.append(`\n${text}`);
};

export type Salvaged =
  /** An earlier run of this stage has done the work and was cut short after that: no agent is needed any more. */
  | { kind: "collected"; commit: string }
  /** That work cannot be taken: a failed attempt, as it would have been then. */
  | { kind: "refused"; reason: string }
  /** What the earlier run left, if anything, is kept under these refs; it has ended as `outcome` says. */
  | { kind: "kept"; refs: string[]; outcome: Outcome | null };

/**
 * Looks after what the task's last run left, before the workspace is used again: nobody pays twice for work that an agent
 * has finished, and nothing that an agent left is thrown away.
 * @throws {ToolError} `workspace_busy` where a process in the workspace cannot be ended.
 */
export const salvage = async (context: RunContext, run: ActiveRun, place: RunPlace): Promise<Salvaged> => {
  const { claim, signal } = run;
  const { mirror } = place;
  const workspace = workspacePath(context.config.workspacesDir, claim.task.workItemId);
  // Before it is asked who was here last: something may be at work although its start could not be recorded.
  await endLeftIn(context, workspace);
  const earlier = await findEarlierRun(context.storage, claim.task.id, claim.run.id);
  if (earlier === null) return { kind: "kept", refs: [], outcome: null };
  const launching: Finalizing = { signal, onWait: (waiting) => run.waits(waiting) };
  // Where the earlier run began: the branch may have been found further on since, by another run's push.
  const began = { ...place, start: claim.task.head ?? place.start };
  const work: Work = { place: began, workspace, author: earlier };
  let collected = await mirror.resolve(runRef(earlier.id), { signal });
  if (earlier.isFinished && earlier.stage === claim.job.stage) {
    if (collected === null) {
      const taken = await collect(context, run, work, launching);
      if (taken.kind !== "collected") {
        await keep(context, run, work, launching);
        return { kind: "refused", reason: whyNotTaken(taken, began) };
      }
      collected = taken.commit;
    }
    if (await mirror.isAncestor(place.start, collected, { signal })) return { kind: "collected", commit: collected };
  }
  const isInMirror = await isKept(mirror, earlier.id, { signal });
  if (!isInMirror && !(await isHalfMade(workspace))) await keep(context, run, work, launching);
  return { kind: "kept", refs: await refsLeft(place, earlier, signal), outcome: earlier.outcome };
};

/** Why work that should have been collected was not, in words for people and for the next attempt. */
export const whyNotTaken = (taken: Exclude<Collected, { kind: "collected" }>, { start }: RunPlace): string =>
  taken.kind === "unreadable"
    ? taken.reason
    : `the work ends in ${taken.tip}, which does not descend from ${start}, where the run started: ` +
      "history must be added to, not rewritten";

/** The refs of what the earlier run, and whoever went on with its work, left beyond the place where the next run starts. */
const refsLeft = async ({ mirror, start }: RunPlace, earlier: EarlierRun, signal: AbortSignal): Promise<string[]> => {
  const left: string[] = [];
  const seen = new Set<string>();
  const candidates = [
    ...(earlier.judgedBy === null ? [] : [wipRef(earlier.judgedBy)]),
    wipRef(earlier.id),
    runRef(earlier.id),
  ];
  for (const ref of candidates) {
    const commit = await mirror.resolve(ref, { signal });
    if (commit === null || seen.has(commit)) continue;
    seen.add(commit);
    if ((await mirror.changedPaths(start, commit, { signal })).length > 0) left.push(ref);
  }
  return left;
};

/**
 * Ends what still works in a workspace, which is used again, or removed, only when all of that is seen gone.
 * @throws {ToolError} `workspace_busy`
 * @throws {FencedOffError} what works there may be another scheduler's agent by now.
 */
export const endLeftIn = async (context: RunContext, workspace: string): Promise<void> => {
  const { config, clock, activeRuns } = context;
  await fenceOf(context)();
  const { survivors } = await endProcesses({ marks: { folder: workspace }, graceMs: config.killGraceMs, clock });
  const left = new Set([...survivors, ...activeRuns.survivors.in(workspace)]);
  if (left.size === 0) return;
  throw new ToolError(
    "workspace_busy",
    `processes ${[...left].join(", ")} work in ${workspace} and cannot be ended: end them, or give them another directory`,
  );
};
