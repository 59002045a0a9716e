import { CRASH_SIGNALS } from "@orchestrator/shared/process/crash_signals.ts";
import type { EndReason } from "./active_runs.ts";
import type { AgentExit } from "./agent_process.ts";
import { type Ended, failedAttempt } from "./run_result.ts";

/**
 * What is recorded of an agent's end and, unless it has finished its work, the result of its run.
 * @param endReason why its end was asked for; null where nobody did.
 * @param keeperExit how the agent's keeper ended.
 * @param isNoted whether the keeper has noted that the agent exited 0 of itself.
 */
export const decideExit = ({
  endReason,
  keeperExit,
  isNoted,
}: {
  endReason: EndReason | null;
  keeperExit: AgentExit;
  isNoted: boolean;
}): { recorded: AgentExit; ended: Ended | null } => {
  const exit: AgentExit = isNoted ? { code: 0, signal: null } : keeperExit;
  // An agent that had exited 0 of itself when its end was asked for has finished: its work is not paid for again.
  const counts = endReason !== null && (!isNoted || endReason.outcome === "cancelled");
  if (!counts) return { recorded: exit, ended: endedBy(exit) };
  // Recorded with the signal that asked: an agent that then exits 0 has not finished its work.
  return {
    recorded: { ...exit, signal: exit.signal ?? "SIGTERM" },
    ended: { kind: "ended", ...endReason, runsAgentAgain: true },
  };
};

/** The result of a run by an exit that nobody here asked for; null for exit 0. */
const endedBy = (exit: AgentExit): Ended | null => {
  const seen = classifyExit(exit);
  switch (seen.kind) {
    case "exited_ok":
      return null;
    case "failed":
      return failedAttempt(seen.reason);
    case "tool_error":
      return { kind: "ended", outcome: "tool_error", class: seen.code, reason: seen.reason, runsAgentAgain: true };
  }
};

/** What the end of an agent that nobody here asked for says about it. */
export type ExitClass =
  | { kind: "exited_ok" }
  /** The work's or the agent's own fault. */
  | { kind: "failed"; reason: string }
  /** Somebody outside ended it (the kernel out of memory, an operator): neither's fault. */
  | { kind: "tool_error"; code: "killed"; reason: string };

/** Decides what an exit means where the agent was not ended by the scheduler; whoever ended it knows the outcome already. */
export const classifyExit = ({ code, signal }: AgentExit): ExitClass => {
  if (signal !== null) {
    return CRASH_SIGNALS.has(signal)
      ? { kind: "failed", reason: `the agent crashed (${signal})` }
      : {
          kind: "tool_error",
          code: "killed",
          reason: `the agent was ended by ${signal}, which the scheduler did not send${signal === "SIGKILL" ? " (was the memory full?)" : ""}`,
        };
  }
  if (code === 0) return { kind: "exited_ok" };
  return {
    kind: "failed",
    reason: code === null ? "the agent ended without an exit code" : `the agent exited with code ${code}`,
  };
};
