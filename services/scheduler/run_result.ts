import type { Outcome } from "@orchestrator/shared/domain.ts";
import { BRANCH_MOVED } from "@orchestrator/shared/outcome_class.ts";

/** What a run came to, as the finalizer found it. `decideNext` turns it into what happens to job and task. */
export type RunResult =
  /** The gate was read and passed; `head` is the published commit. `merged`: where the base branch stands with it, if it was merged. */
  | { kind: "passed"; head: string; merged?: { into: string; commit: string } }
  /** The gate was read and says no, or the base branch does not take the work; `to` is an earlier stage, or `blocked`. */
  | { kind: "turned_down"; head: string; class: "gate_failed" | "merge_conflict"; to: string; reason: string }
  /** The run ended without a verdict. */
  | Ended
  /** A person is needed at once, whatever attempts are left: somebody else has moved the branch. */
  | { kind: "needs_person"; class: string; reason: string }
  /** A staging run that the infrastructure failed: the same again later, with a marker. */
  | { kind: "deferred"; class: string; reason: string }
  /** A staging run whose defers are used up. */
  | { kind: "defers_used_up"; class: string; reason: string }
  /** What was tested is not what the branch is now: once more, without a marker. */
  | { kind: "branch_moved"; reason: string };

export interface Ended {
  kind: "ended";
  outcome: "failed" | "tool_error" | "timed_out" | "stalled" | "interrupted" | "cancelled";
  class: string | null;
  reason: string;
  /** Whether the next attempt would run the agent a second time: not before its start, and not once its work is collected. */
  runsAgentAgain: boolean;
}

/** The result of an attempt whose work, or whose agent, was at fault. */
export const failedAttempt = (reason: string): Ended => ({
  kind: "ended",
  outcome: "failed",
  class: null,
  reason,
  runsAgentAgain: true,
});

/** What the run's row records. */
export interface RunEnding {
  outcome: Outcome;
  class: string | null;
  reason: string | null;
}

/** A verdict against the work is a `failed` run: the gate was not passed. */
export const endingOf = (result: RunResult): RunEnding => {
  switch (result.kind) {
    case "passed":
      return { outcome: "succeeded", class: null, reason: null };
    case "turned_down":
    case "needs_person":
      return { outcome: "failed", class: result.class, reason: result.reason };
    case "deferred":
    case "defers_used_up":
      return { outcome: "tool_error", class: result.class, reason: result.reason };
    case "branch_moved":
      return { outcome: "superseded", class: BRANCH_MOVED, reason: result.reason };
    case "ended":
      return { outcome: result.outcome, class: result.class, reason: result.reason };
  }
};
