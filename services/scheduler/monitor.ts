import { FINALIZER_EXPIRED } from "@orchestrator/shared/outcome_class.ts";
import { findStage, isStagingRunners, type Stage } from "@orchestrator/shared/pipeline.ts";
import { FencedOffError } from "@orchestrator/shared/storage/check_epoch.ts";
import { findRun } from "@orchestrator/shared/storage/read_jobs.ts";
import { mayRunAgain } from "@orchestrator/shared/storage/record_run_progress.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";
import type { ActiveRun } from "./active_runs.ts";
import { clearUpAfter } from "./clear_up.ts";
import { endSurely } from "./end_surely.ts";
import { type Finalizing, finalizeAgentRun, finalizeCommit } from "./finalizer.ts";
import { launch, recordAgentStart } from "./launcher.ts";
import { recordNotedExit } from "./noted_exits.ts";
import { holdOf, type RunContext } from "./run_context.ts";
import { faultOf, INTERNAL } from "./run_fault.ts";
import type { RunLog } from "./run_log.ts";
import { type Ended, endingOf, type RunResult } from "./run_result.ts";
import { type Settlement, settleRun } from "./settle.ts";
import { workWithStager } from "./work_with_stager.ts";
import { UnwrittenError, writeSurely } from "./write_surely.ts";

/**
 * Brings a run to its result, by an agent or by the stager. It calls `beginFinalizing` before its worker can be seen as gone.
 */
export type Work = (
  context: RunContext,
  run: ActiveRun,
  log: RunLog,
  beginFinalizing: () => Finalizing,
) => Promise<RunResult>;

/**
 * Works one claimed job from its launch to its settle. Never rejects: what goes wrong becomes the run's outcome, whether
 * somebody foresaw it or not. Only what cannot be settled is left to the reaper, which sees neither mark nor monitor any more.
 * @param work what is done between the two.
 */
export const monitorRun = async (context: RunContext, run: ActiveRun, work: Work = workOnStage): Promise<void> => {
  const { activeRuns, liveness, log, points } = context;
  const { jobId, runId } = holdOf(run);
  try {
    await points.reach("claim.after", jobId);
    const finalizing = new FinalizerMark(context, run);
    const result = await resultOf(context, run, finalizing, async () => {
      const file = { path: run.claim.run.logPath!, maxBytes: context.config.logMaxBytes };
      const runLog = await context.runLogs.open(runId, file);
      return work(context, run, runLog, () => finalizing.begin());
    });
    await settle(context, run, result, finalizing.begin());
    await points.reach("clear.before", jobId);
  } catch (error) {
    // The job of one that has been fenced off is another scheduler's already; of what a stop leaves the stop tells.
    if (!(error instanceof FencedOffError || error instanceof UnwrittenError))
      log.error({ err: error, jobId, runId }, "a run could not be settled; the reaper will take the job");
  } finally {
    liveness.clear(jobId, runId);
    run.over();
    // The log first: who waits for the last run to be gone may end the process then.
    await closeLog(context, runId);
    await clearUpAfter(context, run);
    activeRuns.remove(run);
    await points.reach("clear.after", jobId);
  }
};

/** Sets the finalizer-liveness mark, once, and gives what a finalizer works under. */
class FinalizerMark {
  readonly #context: RunContext;
  readonly #run: ActiveRun;
  #begun: Finalizing | null = null;

  constructor(context: RunContext, run: ActiveRun) {
    this.#context = context;
    this.#run = run;
  }

  /** Set once the finalizer was ended: by the reaper, as a rule, which has settled the run in its place. */
  get expired(): { class: string; reason: string } | null {
    if (!this.#begun?.signal.aborted) return null;
    const { message } = this.#begun.signal.reason as Error;
    return { class: FINALIZER_EXPIRED, reason: message };
  }

  begin(): Finalizing {
    if (this.#begun) return this.#begun;
    const { liveness, points } = this.#context;
    const { jobId, runId } = holdOf(this.#run);
    const abort = new AbortController();
    liveness.mark(jobId, { runId, stage: this.#run.claim.job.stage, abort });
    this.#run.finalizing();
    // Not awaited: between the exit and its mark nothing may come.
    void points.reach("exit.marked", jobId);
    this.#begun = {
      signal: abort.signal,
      onWait: (waiting, waitsFor) => (waiting ? liveness.hold(jobId, runId, waitsFor) : liveness.resume(jobId, runId)),
    };
    return this.#begun;
  }
}

const workOnStage: Work = async (context, run, log, beginFinalizing) => {
  const { job } = run.claim;
  const stage = findStage(context.config.pipeline, job.stage);
  if (!stage)
    throw new ToolError("no_stage", `the pipeline has no stage ${job.stage}: put it back, or cancel the task`);
  return isStagingRunners(job, context.config)
    ? workWithStager(context, run, stage, log, beginFinalizing)
    : workWithAgent(context, run, stage, log, beginFinalizing);
};

const workWithAgent = async (
  context: RunContext,
  run: ActiveRun,
  stage: Stage,
  log: RunLog,
  beginFinalizing: () => Finalizing,
): Promise<RunResult> => {
  const launched = await launch(context, run, stage, log);
  if (launched.kind === "refused") return launched.result;
  if (launched.kind === "collected") return finalizeCommit(context, run, launched, beginFinalizing());

  const { agent, workspace, place } = launched;
  run.executing({
    kind: "process",
    pid: agent.pid,
    started: agent.started,
    lastOutputMs: () => agent.lastOutputMs(),
  });
  const exited = new AbortController();
  // Synchronously with the exit's being seen: there is no moment at which the process is gone and the job is not marked.
  agent.onExit(() => {
    beginFinalizing();
    exited.abort();
  });
  const end = () =>
    void endSurely(agent, {
      graceMs: context.config.killGraceMs,
      log: context.log,
      hold: holdOf(run),
      signal: exited.signal,
    }).catch((error: unknown) => {
      // What is left once the exit is seen is the finalizer's to end.
      if (!exited.signal.aborted) context.log.error({ err: error, ...holdOf(run) }, "an agent could not be ended");
    });
  run.signal.addEventListener("abort", end, { once: true });
  if (run.signal.aborted) end();
  await recordAgentStart(context, run, agent).catch((error: unknown) => {
    if (!run.signal.aborted)
      run.end({ outcome: "tool_error", class: "not_recorded", reason: `its start could not be recorded: ${error}` });
  });
  const exit = await agent.exited;
  return finalizeAgentRun(context, run, { place, workspace, agent, exit }, beginFinalizing());
};

/** Turns what a run was ended by, and what failed around it, into a result. Only the loss of the fence is none, or a stop. */
const resultOf = async (
  context: RunContext,
  run: ActiveRun,
  mark: FinalizerMark,
  work: () => Promise<RunResult>,
): Promise<RunResult> => {
  try {
    return await work();
  } catch (error) {
    if (error instanceof FencedOffError || error instanceof UnwrittenError) throw error;
    if (run.phase !== "finalizing" && run.endReason !== null) return ended(run.endReason, false);
    const fault = mark.expired ?? faultOf(error);
    if (fault.class === INTERNAL)
      context.log.error({ err: error, ...holdOf(run) }, "a run met an error that nobody foresaw");
    return ended({ outcome: "tool_error", ...fault }, await mayAgentRunAgain(context, run, mark.begin()));
  }
};

const ended = (ending: Pick<Ended, "outcome" | "class" | "reason">, runsAgentAgain: boolean): Ended => ({
  kind: "ended",
  ...ending,
  runsAgentAgain,
});

/**
 * What fails outside an agent's own ending fails before the agent was started, or after it exited 0: the next attempt goes on
 * with its work instead of running it again. That holds only where the exit stands on record, by which the next attempt goes.
 */
const mayAgentRunAgain = async (context: RunContext, run: ActiveRun, finalizing: Finalizing): Promise<boolean> => {
  if (run.worker?.kind !== "process") return false;
  const asRecorded = async (): Promise<boolean> => {
    const row = await findRun(context.storage, run.claim.run.id);
    return row === null || mayRunAgain(await recordNotedExit(context, { ...row, ...holdOf(run) }));
  };
  return writeSurely(asRecorded, { what: "exited", log: context.log, ...finalizing });
};

const settle = async (
  context: RunContext,
  run: ActiveRun,
  result: RunResult,
  finalizing: Finalizing,
): Promise<void> => {
  const { log, reaperCounters, stagingCounters } = context;
  const hold = holdOf(run);
  const by = run.endReason?.outcome === "interrupted" ? "shutdown" : null;
  const settlement = await writeSurely(() => settleRun(context, hold.runId, result, by), {
    what: "settle",
    log,
    ...finalizing,
  });
  logSettled(context, run, result, settlement);
  if (settlement.kind === "superseded") reaperCounters.settleSuperseded += 1;
  if (settlement.kind === "settled" && settlement.next === "defer") stagingCounters.deferred += 1;
};

/** One line that says how a run ended and what follows: a pass is news, anything else a warning, a block an error. */
const logSettled = ({ log }: RunContext, run: ActiveRun, result: RunResult, settlement: Settlement): void => {
  const { task, job } = run.claim;
  const { outcome, class: outcomeClass, reason } = endingOf(result);
  const next = settlement.kind === "settled" ? settlement.next : settlement.kind;
  const line = {
    ...holdOf(run),
    ...{ workItemId: task.workItemId, stage: job.stage, agent: job.agent, attempt: job.attempt },
    ...{ outcome, class: outcomeClass, reason, next },
  };
  const level = next === "block" ? "error" : result.kind === "passed" ? "info" : "warn";
  log[level](line, "settled");
};

const closeLog = async ({ runLogs, log }: RunContext, runId: number): Promise<void> => {
  try {
    await runLogs.close(runId);
  } catch (error) {
    log.error({ err: error, runId }, "the log of a run could not be written to its end");
  }
};
