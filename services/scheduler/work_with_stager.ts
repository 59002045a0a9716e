import { STAGER_UNREACHABLE } from "@orchestrator/shared/outcome_class.ts";
import type { Stage } from "@orchestrator/shared/pipeline.ts";
import type { StagingEvent, StagingResult } from "@orchestrator/shared/schemas/staging_run.ts";
import { findTestedRuns } from "@orchestrator/shared/storage/find_tested_runs.ts";
import { recordStarted } from "@orchestrator/shared/storage/record_run_progress.ts";
import type { ActiveRun } from "./active_runs.ts";
import { type CollectedWork, type Finalizing, finalizeCommit } from "./finalizer.ts";
import { commitFile } from "./git/commit_file.ts";
import { commitMessage } from "./git/commit_message.ts";
import { runRef } from "./git/refs.ts";
import { holdOf, type RunContext, writingIn } from "./run_context.ts";
import type { RunLog } from "./run_log.ts";
import { findPlace, type RunPlace } from "./run_place.ts";
import type { RunResult } from "./run_result.ts";
import { callStager, type StagingAnswer } from "./staging_client.ts";
import { writeSurely } from "./write_surely.ts";

/** Works a `deploy-staging` job: the stager runs and judges, this side writes its artifact and publishes it. */
export const workWithStager = async (
  context: RunContext,
  run: ActiveRun,
  stage: Stage,
  log: RunLog,
  beginFinalizing: () => Finalizing,
): Promise<RunResult> => {
  const { config, storage, stagingCounters } = context;
  const { job, task } = run.claim;
  const found = await findPlace(context, run, stage);
  if (found.kind === "refused") return found.result;
  const { place } = found;
  const tested = await findTested(context, run, place);
  if (tested !== null) return finalizeCommit(context, run, tested, beginFinalizing());
  const detail = { stage: job.stage, agent: job.agent, commit: place.start };
  await writeSurely(() => storage.write((tx) => recordStarted(tx, holdOf(run), null, detail)), {
    what: "started",
    log: context.log,
    signal: run.signal,
    onWait: (waiting) => run.waits(waiting),
  });
  run.executing({ kind: "stream" });
  let finalizing: Finalizing | null = null;
  let begun = false;
  const answer = await callStager({
    url: config.stagerUrl,
    token: config.stagerToken,
    request: { job_id: job.id, run_id: run.claim.run.id, task_id: task.id },
    signal: run.signal,
    onEvent: (event) => {
      run.sawOutput();
      const isWritten = log.append(logLine(event));
      if (event.event === "started") {
        begun = true;
        stagingCounters.runs += 1;
      }
      // The mark is set before the stream can be seen as closed.
      if (event.event === "result") finalizing = beginFinalizing();
      return isWritten ? undefined : log.drained();
    },
  }).catch((error: unknown) => {
    // Given up from this side: a run without a verdict, as one that was lost.
    if (begun) stagingCounters.toolError += 1;
    throw error;
  });
  count(context, answer, begun);
  return judge(context, run, place, answer, finalizing ?? beginFinalizing());
};

/**
 * A run of this job that was tested to its end and cut short before its settle: its artifact is kept, and nothing is deployed
 * a second time. It counts only where the task still stands at what it tested, or at that artifact.
 */
const findTested = async ({ storage }: RunContext, run: ActiveRun, place: RunPlace): Promise<CollectedWork | null> => {
  const { claim, signal } = run;
  for (const runId of await findTestedRuns(storage, claim.job.id, claim.run.id)) {
    const commit = await place.mirror.resolve(runRef(runId), { signal });
    if (commit === null) continue;
    const start = await place.mirror.resolve(`${commit}^`, { signal });
    // Where it was published as well, the task stands at the artifact by now.
    const isCurrent = start === place.start || commit === place.start;
    return isCurrent && start !== null
      ? { place: { ...place, start }, commit, testedBy: { runId, commit: start } }
      : null;
  }
  return null;
};

const judge = async (
  context: RunContext,
  run: ActiveRun,
  place: RunPlace,
  answer: StagingAnswer,
  finalizing: Finalizing,
): Promise<RunResult> => {
  switch (answer.kind) {
    case "unreachable":
      return {
        kind: "ended",
        outcome: "tool_error",
        class: STAGER_UNREACHABLE,
        reason: answer.reason,
        runsAgentAgain: false,
      };
    case "refused":
      return { kind: "deferred", class: "stager_refused", reason: answer.reason };
    case "lost":
      return { kind: "deferred", class: "stager_lost", reason: answer.reason };
    case "result":
      return fromVerdict(context, run, place, answer.result, finalizing);
  }
};

const fromVerdict = async (
  context: RunContext,
  run: ActiveRun,
  place: RunPlace,
  { verdict, class: toolErrorClass, action, reason, commit, artifact }: StagingResult,
  finalizing: Finalizing,
): Promise<RunResult> => {
  if (verdict === "tool_error") {
    const kind = action === "block" ? "defers_used_up" : "deferred";
    return { kind, class: toolErrorClass ?? "unknown", reason };
  }
  if (commit !== place.start) {
    return { kind: "branch_moved", reason: `tested was ${commit}, the branch stands at ${place.start}` };
  }
  if (artifact === null || artifact.path !== place.artifact) {
    const found = artifact === null ? "none" : artifact.path;
    return {
      kind: "deferred",
      class: "stager_lost",
      reason: `the stager's artifact is ${found}, expected was ${place.artifact}`,
    };
  }
  const { task, job, run: row } = run.claim;
  const { mirror } = place;
  const options = {
    ...{ git: context.git, mirror, parent: commit, path: artifact.path, content: artifact.content, runId: row.id },
    message: commitMessage({
      subject: `${task.workItemId}: ${job.stage}`,
      body: `Staging run: ${verdict}.`,
    }),
    signal: finalizing.signal,
  };
  await context.points.reach("commit.before", job.id);
  const made = await writingIn(context, mirror, (fence) => commitFile({ ...options, fence }), finalizing);
  await context.points.reach("commit.after", job.id);
  return finalizeCommit(context, run, { place, commit: made, testedBy: { runId: row.id, commit } }, finalizing);
};

const count = ({ stagingCounters }: RunContext, answer: StagingAnswer, begun: boolean): void => {
  if (answer.kind === "unreachable") return;
  if (!begun) stagingCounters.runs += 1;
  if (answer.kind !== "result" || answer.result.verdict === "tool_error") stagingCounters.toolError += 1;
  else stagingCounters[answer.result.verdict] += 1;
};

const logLine = (event: StagingEvent): string => {
  switch (event.event) {
    case "started":
      return `staging run of ${event.commit} (${event.branch})\n`;
    case "step": {
      const seconds = event.duration_ms === undefined ? "" : ` in ${(event.duration_ms / 1000).toFixed(1)} s`;
      const code = event.exit_code == null ? "" : `, exit code ${event.exit_code}`;
      return `step ${event.name}: ${event.state}${seconds}${code}${event.reason ? `: ${event.reason}` : ""}\n`;
    }
    case "output":
      return event.text;
    case "heartbeat":
      return "";
    case "result":
      return `result: ${event.verdict}${event.class ? ` (${event.class})` : ""}: ${event.reason}\n`;
  }
};
