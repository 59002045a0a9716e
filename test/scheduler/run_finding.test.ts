import { OUTCOMES, type Outcome } from "@orchestrator/shared/domain.ts";
import {
  BRANCH_MOVED,
  DATABASE,
  FINALIZER_EXPIRED,
  FOREIGN_COMMIT,
  LOST,
  STAGER_UNREACHABLE,
} from "@orchestrator/shared/outcome_class.ts";
import { expect, test } from "vitest";
import { INTERNAL } from "../../services/scheduler/run_fault.ts";
import { findingOf } from "../../services/scheduler/run_finding.ts";

const WELL = { kind: "well" } as const;
const NOTHING = { kind: "nothing" } as const;
const fault = (named: string) => ({ kind: "fault", class: named }) as const;

const TABLE: [Outcome, string | null, ReturnType<typeof findingOf>][] = [
  // Work or a verdict came of it, so what is around it did its part.
  ["succeeded", null, WELL],
  ["failed", null, WELL],
  ["failed", "gate_failed", WELL],
  ["failed", "merge_conflict", WELL],
  ["failed", FOREIGN_COMMIT, WELL],
  ["timed_out", null, WELL],
  ["stalled", null, WELL],
  ["superseded", BRANCH_MOVED, WELL],
  // Something around it did not.
  ["tool_error", "stager_lost", fault("stager_lost")],
  ["tool_error", "stager_refused", fault("stager_refused")],
  ["tool_error", "git_fetch", fault("git_fetch")],
  ["tool_error", "command_not_found", fault("command_not_found")],
  ["tool_error", "launch_timeout", fault("launch_timeout")],
  ["tool_error", FINALIZER_EXPIRED, fault(FINALIZER_EXPIRED)],
  ["tool_error", INTERNAL, fault(INTERNAL)],
  // It did not come so far, or nobody saw how far it came.
  ["tool_error", STAGER_UNREACHABLE, NOTHING],
  ["tool_error", DATABASE, NOTHING],
  ["tool_error", null, NOTHING],
  ["failed", LOST, NOTHING],
  ["interrupted", LOST, NOTHING],
  ["interrupted", "shutdown", NOTHING],
  ["interrupted", "restart", NOTHING],
  ["cancelled", null, NOTHING],
  ["superseded", null, NOTHING],
];

test.each(TABLE)("%s with the class %s", (outcome, endedAs, finding) => {
  expect(findingOf({ outcome, class: endedAs })).toEqual(finding);
});

test("the table has every outcome", () => {
  expect(new Set(TABLE.map(([outcome]) => outcome))).toEqual(new Set(OUTCOMES));
});
