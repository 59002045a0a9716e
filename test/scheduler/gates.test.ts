import type { GateReading } from "@orchestrator/shared/artifact.ts";
import { DEFAULT_PIPELINE, type Stage } from "@orchestrator/shared/pipeline.ts";
import { describe, expect, test } from "vitest";
import { type Judgement, judgeStage, type StageWork } from "../../services/scheduler/gates.ts";

const OWN = "docs/work-items/ORCH-115/12-review.md";
const PASS: GateReading = { kind: "pass", value: "APPROVED" };

const judge = (stage: Stage, work: Partial<StageWork> = {}): Judgement =>
  judgeStage({
    stage,
    workItemId: "ORCH-115",
    reading: PASS,
    changedPaths: [OWN],
    differsFromBase: stage.writes === "code",
    ...work,
  });

describe.each(DEFAULT_PIPELINE.stages.map((stage) => [stage.name, stage] as const))("%s", (name, stage) => {
  test("passes with a passing gate", () => {
    expect(judge(stage)).toEqual({ kind: "pass" });
  });

  test("fails its attempt where the gate cannot be read, and says why", () => {
    const reading: GateReading = { kind: "unreadable", reason: "12-review.md: line 3: something" };
    expect(judge(stage, { reading })).toEqual({ kind: "failed_attempt", reason: "12-review.md: line 3: something" });
  });

  const { gate } = stage;
  if (gate !== null) {
    test.each(gate.fail)(`goes to ${gate.onFail} with ${gate.key} %s`, (value) => {
      const reading: GateReading = { kind: "fail", value, onFail: gate.onFail };
      expect(judge(stage, { reading })).toEqual({
        kind: "fail",
        value,
        to: gate.onFail,
        reason: `${gate.key} is ${value}`,
      });
    });
  }

  if (stage.writes === "docs") {
    const readings: GateReading[] = [
      PASS,
      { kind: "fail", value: "FAILED", onFail: "development" },
      { kind: "unreadable", reason: "x" },
    ];
    test.each(readings)("fails its attempt with a change outside the folder, whatever the gate: %j", (reading) => {
      expect(judge(stage, { reading, changedPaths: [OWN, "src/main.ts"] })).toEqual({
        kind: "failed_attempt",
        reason: `the stage ${name} may change only docs/work-items/ORCH-115/, but it changed src/main.ts`,
      });
    });
  } else {
    test("may change anything", () => {
      expect(judge(stage, { changedPaths: [OWN, "src/main.ts", ".orchestrator/staging.yaml"] })).toEqual({
        kind: "pass",
      });
    });
  }
});

const stageNamed = (name: string): Stage => DEFAULT_PIPELINE.stages.find((stage) => stage.name === name)!;
const review = stageNamed("review");
const development = stageNamed("development");

describe("what counts as the work item's folder", () => {
  test.each<[path: string, inside: boolean]>([
    ["docs/work-items/ORCH-115/12-review.md", true],
    ["docs/work-items/ORCH-115/pictures/a b.png", true],
    ["docs/work-items/ORCH-115", false],
    ["docs/work-items/ORCH-1150/12-review.md", false],
    ["docs/work-items/ORCH-11/12-review.md", false],
    ["docs/work-items/orch-115/12-review.md", false],
    ["docs/work-items/README.md", false],
    ["docs/README.md", false],
    ["a/docs/work-items/ORCH-115/12-review.md", false],
    [".gitignore", false],
    [".orchestrator/staging.yaml", false],
  ])("%s: %s", (path, inside) => {
    expect(judge(review, { changedPaths: [path] }).kind).toBe(inside ? "pass" : "failed_attempt");
  });

  test("a few of many paths are listed, strange ones in quotes", () => {
    const changedPaths = ["a b", "c\nd", "e", "f", "g", "h", "i"];
    expect(judge(review, { changedPaths })).toMatchObject({
      reason:
        'the stage review may change only docs/work-items/ORCH-115/, but it changed "a b", "c\\nd", e, f, g and 2 more',
    });
  });

  test("nothing changed is nothing outside", () => {
    expect(judge(review, { changedPaths: [] })).toEqual({ kind: "pass" });
  });
});

describe("development must bring code", () => {
  const reading: GateReading = { kind: "pass", value: null };

  test("a branch like its base fails the attempt", () => {
    expect(judge(development, { reading, differsFromBase: false })).toEqual({
      kind: "failed_attempt",
      reason:
        "the branch does not differ from its base outside docs/work-items/: the stage development must change code",
    });
  });

  test("code of an earlier round counts, without a change in this one", () => {
    expect(judge(development, { reading, changedPaths: [OWN], differsFromBase: true })).toEqual({ kind: "pass" });
  });
});

describe("stages of other pipelines", () => {
  const custom: Stage = {
    name: "polish",
    agent: "polisher",
    artifact: "13-polish.md",
    gate: { key: "polish_status", pass: ["SHINY", "GOOD"], fail: ["DULL"], onFail: "design" },
    writes: "code",
    maxAttempts: 1,
    approval: false,
    rerun: true,
  };

  test("a code stage other than development may leave the code as it is", () => {
    expect(judge(custom, { differsFromBase: false })).toEqual({ kind: "pass" });
  });

  test("a failing gate names the stage to go back to", () => {
    expect(judge(custom, { reading: { kind: "fail", value: "DULL", onFail: "design" } })).toEqual({
      kind: "fail",
      value: "DULL",
      to: "design",
      reason: "polish_status is DULL",
    });
  });

  test("a development stage that only documents needs no code", () => {
    expect(judge({ ...development, writes: "docs" }, { differsFromBase: false })).toEqual({ kind: "pass" });
  });

  test("a failing gate of development goes back, also without code", () => {
    const gated: Stage = { ...development, gate: custom.gate };
    const reading: GateReading = { kind: "fail", value: "DULL", onFail: "design" };
    expect(judge(gated, { reading, differsFromBase: false })).toMatchObject({ kind: "fail", to: "design" });
  });
});
