import {
  type ArtifactExpectation,
  type CommittedFile,
  type GateReading,
  parseStagingStatus,
  readGate,
} from "@orchestrator/shared/artifact.ts";
import { MAX_ARTIFACT_BYTES } from "@orchestrator/shared/frontmatter.ts";
import { artifactPath, DEFAULT_PIPELINE, findStage, type Stage } from "@orchestrator/shared/pipeline.ts";
import { describe, expect, test } from "vitest";

const WORK_ITEM = "ORCH-115";
const stageNamed = (name: string): Stage => {
  const stage = findStage(DEFAULT_PIPELINE, name);
  if (stage === undefined) throw new Error(`no stage ${name}`);
  return stage;
};
const review = stageNamed("review");
const staging = stageNamed("deploy-staging");

const file = (text: string): CommittedFile => ({ kind: "file", content: new TextEncoder().encode(text) });

/** The text of an artifact; a key set to null is left out, `undefined` values are the usual ones. */
const artifact = (stage: Stage, changes: Record<string, string | null> = {}, workItemId = WORK_ITEM): CommittedFile => {
  const keys: Record<string, string | null> = {
    work_item: workItemId,
    stage: stage.name,
    author_agent: stage.agent,
    status: "completed",
    created_at: "2026-11-29",
    model_used: "claude-opus-4-8",
    ...(stage.gate ? { [stage.gate.key]: stage.gate.pass[0] ?? "" } : {}),
    ...changes,
  };
  const lines = Object.entries(keys).flatMap(([key, value]) => (value === null ? [] : [`${key}: ${value}\n`]));
  return file(`---\n${lines.join("")}---\n\n# Artifact\n`);
};

const read = (content: CommittedFile, stage: Stage, more: Partial<ArtifactExpectation> = {}): GateReading =>
  readGate(content, { workItemId: WORK_ITEM, stage, ...more });

const reasonOf = (reading: GateReading): string => {
  if (reading.kind !== "unreadable") return `${reading.kind} ${reading.value}`;
  return reading.reason;
};

describe("every stage of the default pipeline", () => {
  for (const stage of DEFAULT_PIPELINE.stages) {
    const { gate } = stage;
    if (gate === null) {
      test(`${stage.name}: readable frontmatter passes`, () => {
        expect(read(artifact(stage), stage)).toEqual({ kind: "pass", value: null });
      });
      continue;
    }
    const accepted = [...gate.pass, ...gate.fail].join(", ");
    test.each(gate.pass)(`${stage.name}: ${gate.key} %s passes`, (value) => {
      expect(read(artifact(stage, { [gate.key]: value }), stage)).toEqual({ kind: "pass", value });
    });
    test.each(gate.fail)(`${stage.name}: ${gate.key} %s goes to ${gate.onFail}`, (value) => {
      expect(read(artifact(stage, { [gate.key]: value }), stage)).toEqual({ kind: "fail", value, onFail: gate.onFail });
    });
    test.each<[written: string, found: string]>([
      ["Success", '"Success"'],
      ["approved", '"approved"'],
      ["PASS", '"PASS"'],
      ["COMPLETED", '"COMPLETED"'],
      ["''", '""'],
      ["' SUCCESS'", '" SUCCESS"'],
      ["APPROVED PASSED", '"APPROVED PASSED"'],
      ["|\n  APPROVED", '"APPROVED\\n"'],
      ["SUCCESS\u00a0", '"SUCCESS\u00a0"'],
      ["true", "the boolean true and not text"],
      ["1", "the number 1 and not text"],
      ["~", "nothing and not text"],
      ["", "nothing and not text"],
      ["[APPROVED]", "a list and not text"],
      ["{ PASSED: x }", "a mapping and not text"],
    ])(`${stage.name}: ${gate.key} written as %j is never a pass`, (written, found) => {
      expect(reasonOf(read(artifact(stage, { [gate.key]: written }), stage))).toBe(
        `${artifactPath(stage, WORK_ITEM)}: line 8: ${gate.key} is ${found}, accepted: ${accepted}`,
      );
    });
    test(`${stage.name}: without ${gate.key}`, () => {
      expect(reasonOf(read(artifact(stage, { [gate.key]: null }), stage))).toBe(
        `${artifactPath(stage, WORK_ITEM)}: the frontmatter has no ${gate.key}, accepted: ${accepted}`,
      );
    });
  }
});

test("a gate of another pipeline with several values, and a key that every object inherits", () => {
  const stage: Stage = {
    ...review,
    name: "security",
    artifact: "20-security.md",
    gate: { key: "constructor", pass: ["CLEAN", "ACCEPTED"], fail: ["FINDINGS", "UNSURE"], onFail: "blocked" },
  };
  expect(read(artifact(stage, { constructor: "ACCEPTED" }), stage)).toEqual({ kind: "pass", value: "ACCEPTED" });
  expect(read(artifact(stage, { constructor: "UNSURE" }), stage)).toEqual({
    kind: "fail",
    value: "UNSURE",
    onFail: "blocked",
  });
  expect(reasonOf(read(artifact(stage, { constructor: null }), stage))).toBe(
    "docs/work-items/ORCH-115/20-security.md: the frontmatter has no constructor, accepted: CLEAN, ACCEPTED, FINDINGS, UNSURE",
  );
});

const PATH = "docs/work-items/ORCH-115/12-review.md";

describe("what is not the file that it should be", () => {
  test.each<[name: string, content: CommittedFile, reason: string]>([
    ["missing", { kind: "missing" }, "the file is missing from the commit; the stage must write it"],
    ["a link", { kind: "not_regular", mode: "120000" }, "found a symbolic link, expected a regular file"],
    ["a submodule", { kind: "not_regular", mode: "160000" }, "found a submodule, expected a regular file"],
    ["a directory", { kind: "not_regular", mode: "040000" }, "found a directory, expected a regular file"],
    ["something else", { kind: "not_regular", mode: "100600" }, "found git mode 100600, expected a regular file"],
    ["too large", { kind: "too_large", bytes: 2_000_000 }, "the file has 2000000 bytes, at most 1048576 are accepted"],
    ["empty", file(""), "line 1: expected a line of '---' that opens the frontmatter"],
    [
      "a verdict in the body only",
      file("# Review\n\n---\nreview_status: APPROVED\n---\n"),
      "line 1: expected a line of '---' that opens the frontmatter",
    ],
    [
      "not UTF-8",
      { kind: "file", content: Uint8Array.of(0x2d, 0x2d, 0x2d, 0x0a, 0xff) },
      "line 2: the file must be UTF-8 text, these bytes are not",
    ],
  ])("%s", (_, content, reason) => {
    expect(reasonOf(read(content, review))).toBe(`${PATH}: ${reason}`);
  });
});

describe("the common keys", () => {
  test.each<[name: string, changes: Record<string, string | null>, reason: string]>([
    ["one is missing", { status: null }, "the frontmatter has no status"],
    [
      "several are missing",
      { work_item: null, author_agent: null, model_used: null },
      "the frontmatter has no work_item, author_agent, model_used",
    ],
    ["one is empty", { model_used: "" }, "line 7: model_used is nothing, expected text"],
    ["one is an empty text", { model_used: "''" }, 'line 7: model_used is the text "", expected text'],
    ["one is a list", { author_agent: "[a]" }, "line 4: author_agent is a list, expected text"],
    ["another work item", { work_item: "ORCH-116" }, 'line 2: work_item is "ORCH-116", expected ORCH-115'],
    ["another case", { work_item: "orch-115" }, 'line 2: work_item is "orch-115", expected ORCH-115'],
    ["another stage", { stage: "testing" }, 'line 3: stage is "testing", expected review'],
    ["a stage that is no text", { stage: "" }, "line 3: stage is nothing, expected review"],
    [
      "several faults",
      { stage: "testing", status: "", created_at: null },
      'the frontmatter has no created_at; line 5: status is nothing, expected text; line 3: stage is "testing", expected review',
    ],
  ])("%s", (_, changes, reason) => {
    expect(reasonOf(read(artifact(review, changes), review))).toBe(`${PATH}: ${reason}`);
  });

  test("a year, a quoted name and further keys are fine", () => {
    const content = artifact(review, { created_at: "2026", work_item: '"ORCH-115"', reviewer_mood: "[good, 2]" });
    expect(read(content, review)).toEqual({ kind: "pass", value: "APPROVED" });
  });

  test.each(["Null", "True", "null", "FALSE"])("a work item called %s is known by what was written", (workItemId) => {
    const content = artifact(review, {}, workItemId);
    expect(readGate(content, { workItemId, stage: review })).toEqual({ kind: "pass", value: "APPROVED" });
    expect(readGate(content, { workItemId: `${workItemId}s`, stage: review }).kind).toBe("unreadable");
  });
});

describe("what the staging runner wrote", () => {
  const commit = "0123456789012345678901234567890123456789";
  const own = { author_agent: "staging-runner", model_used: "n/a", run_id: "9", commit };
  const path = "docs/work-items/ORCH-115/15-staging-log.md";

  test("is read where run and commit are this run's, quoted or not", () => {
    const pass = { kind: "pass", value: "SUCCESS" };
    expect(read(artifact(staging, own), staging, { runId: 9, commit })).toEqual(pass);
    const quoted = { ...own, run_id: "'9'", commit: `'${commit}'` };
    expect(read(artifact(staging, quoted), staging, { runId: 9, commit })).toEqual(pass);
  });

  test.each<[name: string, changes: Record<string, string | null>, reason: string]>([
    ["another run", { run_id: "8" }, 'line 9: run_id is "8", expected 9'],
    [
      "another commit",
      { commit: "1123456789012345678901234567890123456789" },
      `line 10: commit is "1123456789012345678901234567890123456789", expected ${commit}`,
    ],
    ["no run", { run_id: null }, "the frontmatter has no run_id, expected 9"],
    ["no commit", { commit: null }, `the frontmatter has no commit, expected ${commit}`],
    ["another author, another run", { author_agent: "deployer", run_id: "8" }, 'line 9: run_id is "8", expected 9'],
  ])("%s", (_, changes, reason) => {
    const reading = read(artifact(staging, { ...own, ...changes }), staging, { runId: 9, commit });
    expect(reasonOf(reading)).toBe(`${path}: ${reason}`);
  });

  test("an agent's staging log needs neither", () => {
    expect(read(artifact(staging), staging)).toEqual({ kind: "pass", value: "SUCCESS" });
  });

  test("an agent cannot speak for the staging runner", () => {
    expect(reasonOf(read(artifact(staging, own), staging))).toBe(
      `${path}: line 4: author_agent is staging-runner, but the staging runner did not work this run`,
    );
  });
});

describe("parseStagingStatus", () => {
  test.each<[name: string, content: string, status: "SUCCESS" | "FAILED" | null]>([
    ["success", "---\nstaging_status: SUCCESS\n---\n", "SUCCESS"],
    ["failed", "---\nstaging_status: FAILED\n---\n", "FAILED"],
    ["quotes, comment, CRLF, BOM", "\ufeff---\r\nstaging_status: 'SUCCESS' # ok\r\n--- \r\n", "SUCCESS"],
    ["another case", "---\nstaging_status: Success\n---\n", null],
    ["another value", "---\nstaging_status: PASSED\n---\n", null],
    ["a blank in it", "---\nstaging_status: 'SUCCESS '\n---\n", null],
    ["a list", "---\nstaging_status: [SUCCESS]\n---\n", null],
    ["a boolean", "---\nstaging_status: true\n---\n", null],
    ["no key", "---\nstatus: SUCCESS\n---\n", null],
    ["in the body only", "---\nstatus: x\n---\nstaging_status: SUCCESS\n", null],
    ["in a second block", "---\nstatus: x\n---\n---\nstaging_status: SUCCESS\n---\n", null],
    ["twice", "---\nstaging_status: SUCCESS\nstaging_status: FAILED\n---\n", null],
    ["nested", "---\na:\n  staging_status: SUCCESS\n---\n", null],
    ["not closed", "---\nstaging_status: SUCCESS\n", null],
    ["no frontmatter", "staging_status: SUCCESS\n", null],
    ["empty", "", null],
  ])("%s", (_, content, status) => {
    expect(parseStagingStatus(content)).toBe(status);
    expect(parseStagingStatus(new TextEncoder().encode(content))).toBe(status);
  });

  test.each(["SUCCESS", "FAILED", "success", "'SUCCESS'", '"FAILED "', "SUCCESS # ok", "[FAILED]", "yes", "null", ""])(
    "says what the stage's gate makes of the same file: %j",
    (written) => {
      const log = artifact(staging, { staging_status: written });
      const reading = read(log, staging);
      const status = parseStagingStatus((log as Extract<CommittedFile, { kind: "file" }>).content);
      expect(reading.kind === "unreadable" ? null : reading.value).toBe(status);
    },
  );

  test("what is too large or not UTF-8 has no status", () => {
    const head = "---\nstaging_status: SUCCESS\n---\n";
    expect(parseStagingStatus(head + "x".repeat(MAX_ARTIFACT_BYTES - head.length))).toBe("SUCCESS");
    expect(parseStagingStatus(head + "x".repeat(MAX_ARTIFACT_BYTES))).toBeNull();
    expect(parseStagingStatus(Uint8Array.from([...new TextEncoder().encode(head), 0xff]))).toBeNull();
  });
});
