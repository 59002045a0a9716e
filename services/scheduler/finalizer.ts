import { readGate } from "@orchestrator/shared/artifact.ts";
import { readCommittedFile } from "@orchestrator/shared/git/read_committed_file.ts";
import { endProcesses } from "@orchestrator/shared/process/end_processes.ts";
import { recordExited } from "@orchestrator/shared/storage/record_run_progress.ts";
import type { ActiveRun } from "./active_runs.ts";
import type { AgentExit, AgentProcess } from "./agent_process.ts";
import { classifyExit } from "./classify_exit.ts";
import { judgeStage } from "./gates.ts";
import { collectWork, keepWork } from "./git/collect.ts";
import { publishCommit } from "./git/publish.ts";
import { movedByOthers, type RunPlace } from "./launcher.ts";
import { holdOf, ownRunOf, type RunContext } from "./run_context.ts";
import type { Ended, RunResult } from "./run_result.ts";
import { writeSurely } from "./write_surely.ts";

/** What a finalizer works under: its mark is held in the registry for as long as it runs. */
export interface Finalizing {
  /** Aborted when the reaper finds the finalizer hung. */
  signal: AbortSignal;
  /** Stops and restarts the mark's age while the finalizer waits for a lock or the database. */
  onWait: (waiting: boolean) => void;
}

/**
 * Makes of an exited agent a result: ends what it left running, records its exit, collects its work, reads the gate from the
 * commit, and publishes. The settle is the caller's.
 */
export const finalizeAgentRun = async (
  context: RunContext,
  run: ActiveRun,
  work: { place: RunPlace; workspace: string; agent: AgentProcess; exit: AgentExit },
  finalizing: Finalizing,
): Promise<RunResult> => {
  const { points, log } = context;
  const { job } = run.claim;
  await points.reach("exit.seen", job.id);
  await endLeftovers(context, run, work.workspace, work.agent);
  const write = () => context.storage.write((tx) => recordExited(tx, holdOf(run), work.exit));
  await writeSurely(write, { what: "exited", log, ...finalizing });

  const ended = endingOf(run, work.exit);
  if (ended !== null) {
    await keep(context, run, work, finalizing.signal);
    return ended;
  }
  await points.reach("collect.before", job.id);
  const collected = await collectWork({
    ...collecting(context, run, work, finalizing.signal),
    artifact: work.place.artifact,
  });
  await points.reach("collect.after", job.id);
  if (collected.kind !== "collected") {
    await keep(context, run, work, finalizing.signal);
    return failed(
      collected.kind === "not_descended" ? notDescended(collected.tip, work.place.start) : collected.reason,
    );
  }
  return finalizeCommit(context, run, { place: work.place, commit: collected.commit }, finalizing);
};

/** Reads the gate from a collected commit and publishes it; also the way in for work that an earlier run had collected. */
export const finalizeCommit = async (
  context: RunContext,
  run: ActiveRun,
  { place, commit }: { place: RunPlace; commit: string },
  finalizing: Finalizing,
  /** Set where the staging runner wrote the artifact: it must be of this very run and of the commit that was tested. */
  testedBy?: { runId: number; commit: string },
): Promise<RunResult> => {
  const { git, points, storage } = context;
  const { task, job } = run.claim;
  const { mirror, stage, start, artifact } = place;
  const { signal } = finalizing;

  const file = await readCommittedFile(git, mirror.gitDir, commit, artifact, { signal });
  const reading = readGate(file, { workItemId: task.workItemId, stage, ...testedBy });
  const base = `refs/remotes/origin/${task.baseBranch}`;
  const judgement = judgeStage({
    stage,
    workItemId: task.workItemId,
    reading,
    changedPaths: await mirror.changedPaths(start, commit, { signal }),
    differsFromBase: stage.writes === "code" && (await differsFromBase(mirror, base, commit, signal)),
  });
  await points.reach("gate.read", job.id);
  if (judgement.kind === "failed_attempt") {
    await mirror.updateRef(`refs/orchestrator/wip/${run.claim.run.id}`, commit, null);
    return failed(judgement.reason);
  }

  const published = await mirror.exclusive(
    () =>
      publishCommit({
        git,
        mirror,
        branch: task.branch,
        commit,
        head: task.head,
        start,
        fence: () => storage.checkFence(),
        ownRun: ownRunOf(storage, task.id),
        signal,
        points,
      }),
    finalizing,
  );
  switch (published.kind) {
    case "foreign":
      return movedByOthers(task.branch, published);
    case "behind_own":
      return {
        kind: "branch_moved",
        reason: `the remote branch stands at ${published.commit}, by an earlier run of this task`,
      };
    case "published":
      return judgement.kind === "pass"
        ? { kind: "passed", head: commit }
        : {
            kind: "turned_down",
            head: commit,
            gate: stage.gate?.key ?? "",
            value: judgement.value,
            artifact,
            to: judgement.to,
            reason: `${judgement.reason} (see ${artifact})`,
          };
  }
};

/** The result of a run that was ended by somebody, or whose exit speaks for itself; null for an exit 0 nobody asked for. */
const endingOf = (run: ActiveRun, exit: AgentExit): Ended | null => {
  const asked = run.endReason;
  if (asked !== null) return { kind: "ended", ...asked, runsAgentAgain: true };
  const seen = classifyExit(exit);
  switch (seen.kind) {
    case "exited_ok":
      return null;
    case "failed":
      return failed(seen.reason);
    case "tool_error":
      return { kind: "ended", outcome: "tool_error", class: seen.code, reason: seen.reason, runsAgentAgain: true };
  }
};

const failed = (reason: string): Ended => ({
  kind: "ended",
  outcome: "failed",
  class: null,
  reason,
  runsAgentAgain: true,
});

const notDescended = (tip: string, start: string): string =>
  `the work ends in ${tip.slice(0, 12)}, which does not descend from ${start.slice(0, 12)}, where the run started: ` +
  "history must be added to, not rewritten";

const endLeftovers = async (
  { instanceId, config, clock, log }: RunContext,
  run: ActiveRun,
  workspace: string,
  agent: AgentProcess,
): Promise<void> => {
  const { survivors } = await endProcesses({
    group: { pid: agent.pid, started: agent.started },
    marks: { instanceId, runId: run.claim.run.id, folder: workspace },
    graceMs: config.killGraceMs,
    clock,
  });
  if (survivors.length > 0) log.error({ runId: run.claim.run.id, survivors }, "processes of a run could not be ended");
};

const collecting = (
  { git }: RunContext,
  run: ActiveRun,
  { place, workspace }: { place: RunPlace; workspace: string },
  signal: AbortSignal,
) => ({
  git,
  mirror: place.mirror,
  workspace,
  start: place.start,
  runId: run.claim.run.id,
  message: commitMessage(run),
  signal,
});

/** Keeps what a run without success left, for the next attempt and for people. */
const keep = async (
  context: RunContext,
  run: ActiveRun,
  work: { place: RunPlace; workspace: string },
  signal: AbortSignal,
): Promise<void> => {
  const { ref } = await keepWork(collecting(context, run, work, signal));
  if (ref !== null) context.log.info({ runId: run.claim.run.id, ref }, "kept the work of a run that did not succeed");
};

const commitMessage = ({ claim: { task, job, run } }: ActiveRun): string =>
  `${task.workItemId}: ${job.stage}\n\nAttempt ${job.attempt} by ${job.agent}.\n\nOrchestrator-Run: ${run.id}\n`;

const differsFromBase = async (
  mirror: RunPlace["mirror"],
  base: string,
  commit: string,
  signal: AbortSignal,
): Promise<boolean> => {
  const fork = (await mirror.mergeBase(base, commit, { signal })) ?? base;
  const paths = await mirror.changedPaths(fork, commit, { signal });
  return paths.some((path) => !path.startsWith("docs/work-items/"));
};
