import { appendMarker } from "@orchestrator/shared/defer.ts";
import { DEFAULT_PIPELINE, findStage, type Stage } from "@orchestrator/shared/pipeline.ts";
import { describe, expect, test } from "vitest";
import { decideNext, type Next, type Situation } from "../../services/scheduler/decide_next.ts";
import type { Ended, RunResult } from "../../services/scheduler/run_result.ts";

const NOW = Date.parse("2026-01-01T00:00:00.000Z");
const stage = (name: string): Stage => findStage(DEFAULT_PIPELINE, name)!;

const situation = (over: Partial<Situation> = {}): Situation => ({
  task: { returns: 0 },
  job: { attempt: 1, maxAttempts: 3, taskContent: "" },
  stage: stage("review"),
  pipeline: DEFAULT_PIPELINE,
  earlier: [],
  toolErrors: 0,
  defer: { delayMs: 30_000, maxDefers: 10, maxMs: 6 * 3_600_000 },
  nowMs: NOW,
  random: 0,
  ...over,
});

const ended = (over: Partial<Ended> = {}): Ended => ({
  kind: "ended",
  outcome: "failed",
  class: null,
  reason: "exit code 1",
  runsAgentAgain: true,
  ...over,
});

const turnedDown = (to: string): RunResult => ({
  kind: "turned_down",
  head: "c0ffee",
  class: "gate_failed",
  to,
  reason: "review_status is CHANGES_REQUESTED",
});

const again = (attempt: number, delayMs: number, event: "retried" | "requeued" = "retried"): Next => ({
  kind: "again",
  event,
  attempt,
  delayMs,
});

const runs = (
  n: number,
  outcome: "tool_error" | "interrupted" | "failed" | "superseded",
  outcomeClass: string | null = null,
) => Array.from({ length: n }, () => ({ outcome, outcomeClass }));

describe("a gate that passed moves the task to the next stage", () => {
  test.each([
    ["analysis", "architecture"],
    ["architecture", "development"],
    ["development", "review"],
    ["review", "testing"],
    ["testing", "deploy-staging"],
    ["deploy-staging", "deploy"],
    ["deploy", "done"],
  ])("%s → %s", (from, to) => {
    expect(decideNext({ kind: "passed", head: "c0ffee" }, situation({ stage: stage(from) }))).toEqual({
      kind: "advance",
      to,
    });
  });
});

describe("a gate that says no", () => {
  test.each([0, 1, 2])("sends the task back while it has gone back %i times of 3", (returns) => {
    const next = decideNext(turnedDown("development"), situation({ task: { returns } }));
    expect(next).toEqual({ kind: "return", to: "development", why: "review_status is CHANGES_REQUESTED" });
  });

  test("blocks the task when it has gone back as often as the pipeline allows", () => {
    const next = decideNext(turnedDown("development"), situation({ task: { returns: 3 } }));
    expect(next).toEqual({
      kind: "block",
      reason: expect.stringContaining("gone back 3 times already and the pipeline allows 3"),
    });
  });

  test("blocks the task where the stage says so", () => {
    expect(decideNext(turnedDown("blocked"), situation({ stage: stage("deploy") })).kind).toBe("block");
  });
});

describe("a failed attempt", () => {
  test.each<[string, Partial<Situation>, Next]>([
    ["first of three", {}, again(2, 10_000)],
    ["second of three", { job: { attempt: 2, maxAttempts: 3, taskContent: "" } }, again(3, 20_000)],
    ["with full jitter", { random: 1 }, again(2, 11_000)],
    [
      "eighth of many: 10 s × 2^7 is cut to 5 min",
      { job: { attempt: 8, maxAttempts: 99, taskContent: "" } },
      again(9, 300_000),
    ],
  ])("%s is repeated", (_, over, expected) => {
    expect(decideNext(ended(), situation(over))).toEqual(expected);
  });

  test.each(["failed", "timed_out", "stalled"] as const)(
    "the last one, %s, blocks the task with a reason",
    (outcome) => {
      const next = decideNext(ended({ outcome }), situation({ job: { attempt: 3, maxAttempts: 3, taskContent: "" } }));
      expect(next).toEqual({ kind: "block", reason: `attempt 3 of 3 ended ${outcome}: exit code 1` });
    },
  );
});

describe("a tool error", () => {
  const toolError = ended({ outcome: "tool_error", class: "git_fetch", reason: "no route", runsAgentAgain: false });

  test.each([
    [0, 10_000],
    [1, 20_000],
    [5, 300_000],
    [8, 300_000],
  ])("after %i others is repeated in %i ms without using up an attempt", (n, delayMs) => {
    const job = { attempt: 3, maxAttempts: 3, taskContent: "" };
    expect(decideNext(toolError, situation({ job, toolErrors: n }))).toEqual(again(3, delayMs));
  });

  test("the tenth blocks the task", () => {
    const next = decideNext(toolError, situation({ toolErrors: 9 }));
    expect(next).toEqual({ kind: "block", reason: "10 tool errors on this job, the last git_fetch: no route" });
  });

  test("a stager that cannot be reached has no bound and backs off from 5 s to 60 s", () => {
    const unreachable = ended({ outcome: "tool_error", class: "stager_unreachable", runsAgentAgain: false });
    const delay = (n: number) =>
      decideNext(unreachable, situation({ earlier: runs(n, "tool_error", "stager_unreachable") }));
    expect([0, 1, 2, 3, 4, 500].map(delay)).toEqual(
      [5_000, 10_000, 20_000, 40_000, 60_000, 60_000].map((ms) => again(1, ms, "requeued")),
    );
    expect(decideNext(toolError, situation({ earlier: runs(50, "tool_error", "stager_unreachable") }))).toEqual(
      again(1, 10_000),
    );
  });
});

describe("an interruption", () => {
  const interrupted = ended({ outcome: "interrupted", reason: "the scheduler ended" });

  test("uses up nothing and waits for nothing", () => {
    const job = { attempt: 3, maxAttempts: 3, taskContent: "" };
    expect(decideNext(interrupted, situation({ job }))).toEqual(again(3, 0, "requeued"));
  });

  test("the fifth in a row blocks the task; one other outcome between them does not count as a row", () => {
    expect(decideNext(interrupted, situation({ earlier: runs(3, "interrupted") })).kind).toBe("again");
    expect(decideNext(interrupted, situation({ earlier: runs(4, "interrupted") })).kind).toBe("block");
    const broken = [...runs(2, "interrupted"), ...runs(1, "failed"), ...runs(9, "interrupted")];
    expect(decideNext(interrupted, situation({ earlier: broken })).kind).toBe("again");
  });
});

describe("a stage that is not run twice", () => {
  const deploy = { stage: stage("deploy") };

  test.each(["failed", "tool_error", "timed_out", "stalled", "interrupted"] as const)(
    "is blocked when its agent was started and ended %s without a verdict",
    (outcome) => {
      const next = decideNext(ended({ outcome }), situation(deploy));
      expect(next).toEqual({
        kind: "block",
        reason: expect.stringContaining("the stage deploy is not run twice (rerun: false)"),
      });
    },
  );

  test.each(["failed", "tool_error", "interrupted"] as const)(
    "is repeated when %s came before its agent was started",
    (outcome) => {
      expect(decideNext(ended({ outcome, runsAgentAgain: false }), situation(deploy)).kind).toBe("again");
    },
  );
});

describe("a deferred staging run", () => {
  const deferred: RunResult = { kind: "deferred", class: "killed", reason: "step deploy died of SIGKILL" };
  const contentWith = (markers: number, firstAt = "2025-12-31T23:00:00.000Z") => {
    let text = "ORCH-1: title";
    for (let n = 0; n < markers; n++) text = appendMarker(text, firstAt, "earlier");
    return { attempt: 1, maxAttempts: 3, taskContent: text };
  };

  test.each([
    [0, 30_000],
    [1, 60_000],
    [4, 480_000],
    [5, 600_000],
    [9, 600_000],
  ])("with %i markers comes again in %i ms", (markers, delayMs) => {
    expect(decideNext(deferred, situation({ job: contentWith(markers) }))).toEqual({
      kind: "defer",
      availableAtMs: NOW + delayMs,
    });
  });

  test("with ten markers, or six hours after the first, blocks with the last reason", () => {
    const blocks = { kind: "block", reason: expect.stringContaining("step deploy died of SIGKILL") };
    expect(decideNext(deferred, situation({ job: contentWith(10) }))).toEqual(blocks);
    expect(decideNext(deferred, situation({ job: contentWith(1, "2025-12-31T17:59:59.000Z") }))).toEqual(blocks);
  });

  test("blocks where the stager found the defers used up", () => {
    const result: RunResult = { kind: "defers_used_up", class: "killed", reason: "put off 10 times" };
    expect(decideNext(result, situation())).toEqual({ kind: "block", reason: "put off 10 times" });
  });
});

describe("a branch that moved under a run", () => {
  const moved = (n: number) =>
    decideNext(
      { kind: "branch_moved", reason: "moved" },
      situation({ earlier: runs(n, "superseded", "branch_moved") }),
    );

  test.each([
    [0, 0],
    [1, 10_000],
    [2, 20_000],
    [8, 300_000],
  ])("after %i others in a row is looked at again in %i ms, without using up anything", (n, delayMs) => {
    expect(moved(n)).toEqual(again(1, delayMs, "requeued"));
  });

  test("ten times in a row blocks the task", () => {
    expect(moved(9)).toEqual({
      kind: "block",
      reason: "the branch moved under 10 runs in a row, the last time: moved",
    });
  });
});

test("a branch that somebody else moved blocks the task at once, whatever attempts are left", () => {
  const result: RunResult = { kind: "needs_person", class: "foreign_commit", reason: "by Ann" };
  expect(decideNext(result, situation())).toEqual({ kind: "block", reason: "by Ann" });
});

test.each(["review", "deploy"])("a cancelled run of %s decides nothing: the cancel was recorded before it", (name) => {
  expect(() => decideNext(ended({ outcome: "cancelled" }), situation({ stage: stage(name) }))).toThrow(/cancelled/);
});
