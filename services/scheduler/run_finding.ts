import { DATABASE, LOST, STAGER_UNREACHABLE } from "@orchestrator/shared/outcome_class.ts";
import type { EndedRun } from "@orchestrator/shared/storage/committed.ts";

/** What a run's end says about its surroundings: its agent, its repository, and the stager. */
export type RunFinding =
  /** A tool error of a class that may hit others as well. */
  | { kind: "fault"; class: string }
  /** It came as far as work or a verdict, be that a bad one. */
  | { kind: "well" }
  /** It did not come so far as to find anything out. */
  | { kind: "nothing" };

/** Classes of what is waited out by other means, or is everybody's at once, and of a run of which nobody saw the end. */
const SAYS_NOTHING: ReadonlySet<string> = new Set([STAGER_UNREACHABLE, DATABASE, LOST]);

const NOTHING: RunFinding = { kind: "nothing" };
const WELL: RunFinding = { kind: "well" };

/** Tells apart the endings that count for or against the surroundings from those that must do neither. */
export const findingOf = ({ outcome, class: endedAs }: Pick<EndedRun, "outcome" | "class">): RunFinding => {
  if (endedAs !== null && SAYS_NOTHING.has(endedAs)) return NOTHING;
  switch (outcome) {
    case "tool_error":
      return endedAs === null ? NOTHING : { kind: "fault", class: endedAs };
    case "succeeded":
    case "failed":
    // Something was at work until its time was up.
    case "timed_out":
    case "stalled":
      return WELL;
    // With a class it has its verdict, if of another commit than the branch's; without one its job was taken from it.
    case "superseded":
      return endedAs === null ? NOTHING : WELL;
    case "interrupted":
    case "cancelled":
      return NOTHING;
  }
};
