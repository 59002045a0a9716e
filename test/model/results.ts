import { STAGING_STAGE } from "@orchestrator/shared/domain.ts";
import { FOREIGN_COMMIT, STAGER_UNREACHABLE } from "@orchestrator/shared/outcome_class.ts";
import type { RunResult } from "../../services/scheduler/run_result.ts";
import { type Model, stageOf } from "./model.ts";
import type { ModelMonitor } from "./model_process.ts";
import type { ResultName } from "./step.ts";

/** The run was asked to end before it finalized: that decides what it comes to. */
export const isForced = ({ endReason }: ModelMonitor): boolean => endReason !== null;

/**
 * What a run comes to, as the launcher, the finalizer or the stager's answer would make it. Where `name` is not possible for
 * this run, what is possible and nearest.
 * @returns null where it cannot come to a result now: its worker is still at work, or it has one.
 */
export const resultOf = (model: Model, monitor: ModelMonitor, name: ResultName): RunResult | null => {
  const { phase, endReason, worker, exit, runId } = monitor;
  if (monitor.result !== null) return null;
  const isFinalizing = phase === "finalizing";
  if (endReason !== null) {
    // A process that was told to end has to be seen to end; a launch and a stream are broken off at once.
    if (worker === "process" && !isFinalizing) return null;
    return { kind: "ended", ...endReason, runsAgentAgain: worker === "process" };
  }
  if (phase === "launching") return launchResult(model, monitor, name);
  if (!isFinalizing) return null;
  if (worker === "stream") return stagingResult(model, monitor, name);
  const reason = `what came of run ${runId}`;
  if (exit === "code") return { kind: "ended", outcome: "failed", class: null, reason, runsAgentAgain: true };
  if (exit === "signal") return { kind: "ended", outcome: "tool_error", class: "killed", reason, runsAgentAgain: true };
  return commitResult(model, monitor, name);
};

/** Before the agent or the stager: the surroundings fail, somebody else has moved the branch, or earlier work is found. */
const launchResult = (model: Model, monitor: ModelMonitor, name: ResultName): RunResult => {
  const { runId, jobId } = monitor;
  const reason = `what came of the launch of run ${runId}`;
  const toolError = { kind: "ended", outcome: "tool_error", reason, runsAgentAgain: false } as const;
  switch (name) {
    case "git_error":
      return { ...toolError, class: "git_fetch" };
    case "needs_person":
      return { kind: "needs_person", class: FOREIGN_COMMIT, reason };
    case "passed":
    case "turned_down": {
      const hasFinishedWork = model
        .runsOf(jobId)
        .some(({ id, exitCode, signal }) => id < runId && exitCode === 0 && signal === null);
      return hasFinishedWork ? commitResult(model, monitor, name) : { ...toolError, class: "no_space" };
    }
    default:
      return { ...toolError, class: "command_not_found" };
  }
};

/** Work is there: it is judged and published. */
const commitResult = (model: Model, { runId, jobId }: ModelMonitor, name: ResultName): RunResult => {
  const reason = `what came of run ${runId}`;
  const head = `commit-of-run-${runId}`;
  const stage = stageOf(model.job(jobId).stage);
  switch (name) {
    case "failed":
      return { kind: "ended", outcome: "failed", class: null, reason, runsAgentAgain: true };
    case "git_error":
      return { kind: "ended", outcome: "tool_error", class: "git_push", reason, runsAgentAgain: false };
    case "needs_person":
      return { kind: "needs_person", class: FOREIGN_COMMIT, reason };
    case "branch_moved":
      return { kind: "branch_moved", reason };
    case "turned_down":
      if (stage.gate) {
        return { kind: "turned_down", head, class: "gate_failed", to: stage.gate.onFail, reason };
      }
      return { kind: "passed", head };
    default:
      return { kind: "passed", head };
  }
};

const stagingResult = (model: Model, monitor: ModelMonitor, name: ResultName): RunResult => {
  const { stage } = model.job(monitor.jobId);
  if (stage !== STAGING_STAGE) throw new Error(`${stage} is not worked by the stager`);
  const reason = `what came of the staging run ${monitor.runId}`;
  switch (name) {
    case "deferred":
    case "launch_error":
      return { kind: "deferred", class: "stager_lost", reason };
    case "defers_used_up":
      return { kind: "defers_used_up", class: "infra_exit_code", reason };
    case "stager_unreachable":
      return { kind: "ended", outcome: "tool_error", class: STAGER_UNREACHABLE, reason, runsAgentAgain: false };
    default:
      return commitResult(model, monitor, name);
  }
};
