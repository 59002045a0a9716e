import { readGate } from "@orchestrator/shared/artifact.ts";
import { DONE_STAGE } from "@orchestrator/shared/domain.ts";
import { MAX_ARTIFACT_BYTES } from "@orchestrator/shared/frontmatter.ts";
import { readCommittedFile } from "@orchestrator/shared/git/read_committed_file.ts";
import { findStage, nextStageName } from "@orchestrator/shared/pipeline.ts";
import { FencedOffError } from "@orchestrator/shared/storage/check_epoch.ts";
import { holdsLease } from "@orchestrator/shared/storage/holds_lease.ts";
import { recordExited } from "@orchestrator/shared/storage/record_run_progress.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";
import type { ActiveRun } from "./active_runs.ts";
import type { AgentExit, AgentProcess } from "./agent_process.ts";
import { bringToDisk } from "./bring_to_disk.ts";
import { decideExit } from "./classify_exit.ts";
import { endSurely } from "./end_surely.ts";
import type { WaitsFor } from "./finalizer_liveness.ts";
import { type Judgement, judgeStage, listPaths, mustChangeCode } from "./gates.ts";
import { baseTip } from "./git/base_tip.ts";
import { commitMessage, RUN_TRAILER } from "./git/commit_message.ts";
import { mergeIntoBase } from "./git/merge_into_base.ts";
import { publishCommit } from "./git/publish.ts";
import { wipRef } from "./git/refs.ts";
import { forgetNote } from "./noted_exits.ts";
import { fenceOf, holdOf, ownRunOf, type RunContext, writingIn } from "./run_context.ts";
import { movedByOthers, type RunPlace } from "./run_place.ts";
import { failedAttempt, type RunResult } from "./run_result.ts";
import { collect, keep, type Work, whyNotTaken } from "./run_work.ts";
import { writeSurely } from "./write_surely.ts";

/** Where a conflict with the base branch is resolved. */
const STAGE_AFTER_CONFLICT = "development";

/** What a finalizer works under: its mark is held in the registry for as long as it runs. */
export interface Finalizing {
  /** Aborted when the reaper finds the finalizer hung, when a stop cannot write, and when the fence is lost. */
  signal: AbortSignal;
  /** Stops and restarts the mark's age while the finalizer waits for a lock or the database. */
  onWait: (waiting: boolean, waitsFor?: WaitsFor) => void;
}

/** Work in the mirror that is to be judged and published. */
export interface CollectedWork {
  place: RunPlace;
  commit: string;
  /** Between the place's start and `commit`, where that has been looked at already. */
  changedPaths?: readonly string[];
  /** Set where the staging runner wrote the artifact: it must be of this very run and of the commit that was tested. */
  testedBy?: { runId: number; commit: string };
}

/**
 * Makes of an exited agent a result: ends what it left running, records its exit, collects its work, reads the gate from the
 * commit, and publishes. The settle is the caller's.
 */
export const finalizeAgentRun = async (
  context: RunContext,
  run: ActiveRun,
  {
    place,
    workspace,
    agent,
    exit: keeperExit,
  }: { place: RunPlace; workspace: string; agent: AgentProcess; exit: AgentExit },
  finalizing: Finalizing,
): Promise<RunResult> => {
  const { points, log, config, storage } = context;
  const { job } = run.claim;
  await points.reach("exit.seen", job.id);
  const how = { graceMs: config.killGraceMs, log, hold: holdOf(run), signal: finalizing.signal };
  const { survivors } = await endSurely(agent, how);
  if (survivors.length > 0) {
    log.error({ ...holdOf(run), survivors }, "processes of a run could not be ended");
    context.activeRuns.survivors.note(workspace, survivors);
  }
  const isNoted = await agent.isNoted().catch((error: unknown) => {
    log.error({ err: error, ...holdOf(run) }, "the note of an agent's exit could not be read; going by how it ended");
    return false;
  });
  // A keeper may be ended between its note and its own end, and then has not brought the work to the disk.
  if (isNoted && keeperExit.code !== 0) await bringToDisk(workspace, log);
  const { recorded, ended } = decideExit({ endReason: run.endReason, keeperExit, isNoted });
  const write = () => storage.write((tx) => recordExited(tx, holdOf(run), recorded));
  await writeSurely(write, { what: "exited", log, ...finalizing });
  await forgetNote(context, run.claim.run.id);
  await points.reach("exit.recorded", job.id);

  const work = { place, workspace, author: run.claim.run };
  if (ended !== null) {
    await keepIfPossible(context, run, work, finalizing);
    return ended;
  }
  await points.reach("collect.before", job.id);
  const collected = await collect(context, run, work, finalizing);
  await points.reach("collect.after", job.id);
  if (collected.kind === "collected") {
    const { commit, changedPaths } = collected;
    return finalizeCommit(context, run, { place, commit, changedPaths }, finalizing);
  }
  await keepIfPossible(context, run, work, finalizing);
  return failedAttempt(whyNotTaken(collected, place));
};

/**
 * Keeps what a run without success left. Where that fails, whatever the reason, the run's ending stands all the same: what it
 * left is still in its workspace, and is kept before that is used again.
 */
const keepIfPossible = async (
  context: RunContext,
  run: ActiveRun,
  work: Work,
  finalizing: Finalizing,
): Promise<void> => {
  try {
    await keep(context, run, work, finalizing);
  } catch (error) {
    if (error instanceof FencedOffError || finalizing.signal.aborted) throw error;
    context.log.error(
      { err: error, runId: work.author.id },
      "what a run left could not be kept yet; it is in its workspace",
    );
  }
};

/** Reads the gate from collected work and publishes it; also the way in for work that an earlier run had finished. */
export const finalizeCommit = async (
  context: RunContext,
  run: ActiveRun,
  work: CollectedWork,
  finalizing: Finalizing,
): Promise<RunResult> => {
  const { mirror } = work.place;
  const { commit } = work;
  const judgement = await judge(context, run, work, finalizing.signal);
  await context.points.reach("gate.read", run.claim.job.id);
  if (judgement.kind === "failed_attempt") {
    await writingIn(
      context,
      mirror,
      () => mirror.updateRef(wipRef(run.claim.run.id), commit, null, finalizing),
      finalizing,
    );
    return failedAttempt(judgement.reason);
  }
  return publish(context, run, work, judgement, finalizing);
};

const judge = async (
  { git }: RunContext,
  run: ActiveRun,
  { place, commit, changedPaths, testedBy }: CollectedWork,
  signal: AbortSignal,
): Promise<Judgement> => {
  const { mirror, stage, start, artifact } = place;
  const { workItemId, baseBranch } = run.claim.task;
  const file = await readCommittedFile(git, mirror.gitDir, commit, artifact, { maxBytes: MAX_ARTIFACT_BYTES, signal });
  return judgeStage({
    stage,
    workItemId,
    reading: readGate(file, { workItemId, stage, ...testedBy }),
    changedPaths: changedPaths ?? (await mirror.changedPaths(start, commit, { signal })),
    differsFromBase: mustChangeCode(stage) && (await differsFromBase(place, baseBranch, commit, signal)),
  });
};

const publish = async (
  context: RunContext,
  run: ActiveRun,
  { place, commit }: CollectedWork,
  judgement: Exclude<Judgement, { kind: "failed_attempt" }>,
  finalizing: Finalizing,
): Promise<RunResult> => {
  const { git, storage, points } = context;
  const { mirror, start, artifact } = place;
  const { branch, id } = run.claim.task;
  const options = {
    ...{ git, mirror, branch, commit, start, points },
    fence: publishFence(context, run),
    ownRun: ownRunOf(storage, id),
    signal: finalizing.signal,
  };
  const published = await mirror.exclusive(() => publishCommit(options), { ...finalizing, fence: options.fence });
  switch (published.kind) {
    case "foreign":
      return movedByOthers(branch, published);
    case "behind_own":
      return {
        kind: "branch_moved",
        reason: `the remote branch stands at ${published.commit}, by another run of this task`,
      };
    case "published":
      break;
  }
  if (judgement.kind === "pass") return pass(context, run, { place, commit }, finalizing);
  const { to, reason } = judgement;
  return { kind: "turned_down", head: commit, class: "gate_failed", to, reason: `${reason} (see ${artifact})` };
};

/**
 * Asked just before a push or a ref update: this scheduler's epoch stands, and the job is still this run's. What a person has
 * cancelled meanwhile, or the reaper has given to another run, is published no more; it stays in the mirror.
 */
const publishFence = (context: RunContext, run: ActiveRun) => async (): Promise<void> => {
  await fenceOf(context)();
  if (await holdsLease(context.storage, holdOf(run))) return;
  throw new ToolError("superseded", "the job was taken from this run before its work was published");
};

/** After the last stage the work goes into the base branch, where the repository is configured so. */
const pass = async (
  context: RunContext,
  run: ActiveRun,
  { place, commit }: CollectedWork,
  finalizing: Finalizing,
): Promise<RunResult> => {
  const { git, points, config } = context;
  const { mirror, stage } = place;
  const { task, run: row } = run.claim;
  const how = mirror.repo.merge;
  if (how === "none" || nextStageName(config.pipeline, stage.name) !== DONE_STAGE) {
    return { kind: "passed", head: commit };
  }
  const message = commitMessage({
    subject: `${task.workItemId}: ${task.title}`,
    body: how === "merge" ? `Merge of ${task.branch}.` : `All of ${task.branch} as one commit.`,
    trailers: { [RUN_TRAILER]: row.id },
  });
  const { baseBranch } = task;
  const fence = publishFence(context, run);
  const options = { git, mirror, baseBranch, commit, how, message, points, fence, signal: finalizing.signal };
  const merged = await mirror.exclusive(() => mergeIntoBase(options), { ...finalizing, fence });
  if (merged.kind === "merged") {
    return { kind: "passed", head: commit, merged: { into: baseBranch, commit: merged.commit } };
  }
  const to = findStage(config.pipeline, STAGE_AFTER_CONFLICT) ? STAGE_AFTER_CONFLICT : "blocked";
  const reason =
    `${stage.name} has passed at ${commit.slice(0, 12)}, but ${task.branch} does not merge into ${baseBranch} as that is now: ` +
    `conflicts in ${listPaths(merged.paths)}. Bring the base into the branch: git merge origin/${baseBranch}, resolve, commit`;
  return { kind: "turned_down", head: commit, class: "merge_conflict", to, reason };
};

/** Whether the branch changes anything but work items' papers, seen from where it left the base. */
const differsFromBase = async (
  { mirror }: RunPlace,
  baseBranch: string,
  commit: string,
  signal: AbortSignal,
): Promise<boolean> => {
  const base = await baseTip(mirror, baseBranch, { signal });
  const fork = (await mirror.mergeBase(base, commit, { signal })) ?? base;
  const paths = await mirror.changedPaths(fork, commit, { signal });
  return paths.some((path) => !path.startsWith("docs/work-items/"));
};
