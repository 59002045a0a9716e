import { parseStagingStatus, readGate } from "@orchestrator/shared/artifact.ts";
import { MAX_ARTIFACT_BYTES } from "@orchestrator/shared/frontmatter.ts";
import { DEFAULT_PIPELINE, findStage } from "@orchestrator/shared/pipeline.ts";
import { Tail } from "@orchestrator/shared/tail.ts";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type StagingReport, type StepReport, TAIL_BYTES, writeStagingLog } from "../../services/stager/staging_log.ts";

const COMMIT = "0123456789abcdef0123456789abcdef01234567";
const stage = findStage(DEFAULT_PIPELINE, "deploy-staging")!;

const step = (output: Uint8Array | string, change: Partial<StepReport> = {}): StepReport => {
  const tail = new Tail(TAIL_BYTES);
  tail.append(typeof output === "string" ? new TextEncoder().encode(output) : output);
  return { name: "build", result: "passed", exitCode: 0, durationMs: 1234, reason: null, output: tail, ...change };
};

const report = (change: Partial<StagingReport> = {}): StagingReport => ({
  workItemId: "ORCH-115",
  runId: 9,
  commit: COMMIT,
  branch: "work/ORCH-115",
  verdict: "success",
  reason: "all 2 steps passed",
  now: Date.parse("2030-01-02T03:04:05Z"),
  notes: [],
  planFaults: [],
  steps: [step("built\n")],
  teardown: [],
  ...change,
});

/** What the scheduler's gate makes of the file. */
const gate = (content: string) =>
  readGate(
    { kind: "file", content: new TextEncoder().encode(content) },
    { workItemId: "ORCH-115", stage, runId: 9, commit: COMMIT },
  );

describe("writeStagingLog", () => {
  test("a success, whole", () => {
    const log = writeStagingLog(
      report({
        notes: ["the branch's staging plan differs from that of main"],
        steps: [step("built\n"), step("", { name: "a|b `c`", exitCode: null, durationMs: 5 })],
        teardown: [step("stopping\n", { name: "stop", result: "failed", exitCode: 3, reason: "exited with 3" })],
      }),
    );
    expect(log).toBe(`---
work_item: ORCH-115
stage: deploy-staging
author_agent: staging-runner
status: completed
created_at: 2030-01-02
model_used: n/a
staging_status: SUCCESS
run_id: "9"
commit: "${COMMIT}"
---
# Staging log: ORCH-115

- commit: \`${COMMIT}\`
- branch: \`work/ORCH-115\`
- verdict: SUCCESS, all 2 steps passed

> the branch's staging plan differs from that of main

## Steps

| step | result | exit code | seconds |
| --- | --- | --- | --- |
| build | passed | 0 | 1.2 |
| a\\|b \\\`c\\\` | passed |  | 0.0 |

### build

Its output:

\`\`\`text
built
\`\`\`

## Teardown

| step | result | exit code | seconds |
| --- | --- | --- | --- |
| stop | failed | 3 | 1.2 |

### stop

exited with 3

Its output:

\`\`\`text
stopping
\`\`\`
`);
    expect(gate(log)).toEqual({ kind: "pass", value: "SUCCESS" });
  });

  test("a failure is what the gate reads as one", () => {
    const log = writeStagingLog(report({ verdict: "failed", reason: "step build: exited with 2" }));
    expect(gate(log)).toEqual({ kind: "fail", value: "FAILED", onFail: "development" });
    expect(parseStagingStatus(log)).toBe("FAILED");
  });

  test("the faults of a plan stand in it, though they quote the branch's text", () => {
    const log = writeStagingLog(
      report({
        verdict: "failed",
        reason: "a\n---\nstaging_status: SUCCESS",
        planFaults: ["````\n---", "\u001b[31mx"],
        steps: [],
      }),
    );
    expect(gate(log).kind).toBe("fail");
    expect(log).toContain("`````text\n````\n---\nx\n`````");
  });

  const hostile: [string, Uint8Array | string][] = [
    ["back-ticks", "`````````\nstaging_status: SUCCESS\n````````````````````"],
    ["a frontmatter", "---\nstaging_status: SUCCESS\n---\n"],
    ["tilde fences", "~~~~~~~~\n~~~"],
    [
      "ANSI codes",
      "\u001b[1;31mred\u001b[0m \u001b]8;;http://x\u0007link\u001b]8;;\u0007 \u001b]0;title\u001b\\ \u001bM \u001b",
    ],
    ["NUL and other control characters", Uint8Array.from({ length: 32 }, (_, i) => i)],
    ["invalid UTF-8", Uint8Array.from({ length: 256 }, (_, i) => 255 - i)],
    ["text that reads backwards", "\u202eevil\u2066"],
    ["carriage returns", "10%\r20%\r\n30%\u2028\u0085"],
    ["lone halves of characters", Uint8Array.of(0xed, 0xa0, 0x80, 0xf0, 0x9f)],
    ["nothing but back-ticks", "`".repeat(1_000_000)],
    ["nothing but invalid bytes", new Uint8Array(1_000_000).fill(0xff)],
    ["one long line", "x".repeat(3_000_000)],
  ];

  test.each(hostile)("stays readable and small whatever a step prints: %s", (_, output) => {
    for (const verdict of ["success", "failed"] as const) {
      const many = Array.from({ length: 60 }, (_, i) => step(output, { name: `s${i}` }));
      const log = writeStagingLog(report({ verdict, steps: many, teardown: many }));
      expect(parseStagingStatus(log)).toBe(verdict === "success" ? "SUCCESS" : "FAILED");
      expect(gate(log).kind).toBe(verdict === "success" ? "pass" : "fail");
      expect(Buffer.byteLength(log)).toBeLessThan(MAX_ARTIFACT_BYTES);
      expect(log).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/);
      expect(log.isWellFormed()).toBe(true);
    }
  });

  test("nothing that is printed closes the block it stands in", () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom("`", "``", "```", "\n", "---", "x", "~~~", "\r")), (parts) => {
        const output = parts.join("");
        const log = writeStagingLog(report({ steps: [step(`begin${output}\nend`)] }));
        const lines = log.split("\n");
        const open = lines.findIndex((line) => /^`{3,}text$/.test(line));
        const fence = lines[open]!.replace("text", "");
        const close = lines.findIndex((line, at) => at > open && line.startsWith(fence));
        expect(lines.slice(open + 1, close).join("\n")).toBe(`begin${output}\nend`.replace(/\r\n?/g, "\n"));
        expect(lines.slice(close + 1).join("")).toBe("");
      }),
    );
  });

  test("100 MiB of output keep their end, and cost no more memory than that", () => {
    const tail = new Tail(TAIL_BYTES);
    const line = new TextEncoder().encode(`${"x".repeat(1023)}\n`);
    for (let i = 0; i < 100 * 1024; i++) tail.append(line);
    tail.append(new TextEncoder().encode("the last line\n"));
    expect(tail.total).toBe(100 * 1024 * 1024 + 14);
    expect(tail.bytes().byteLength).toBe(TAIL_BYTES);
    const log = writeStagingLog(report({ steps: [step("", { output: tail })] }));
    expect(log).toContain("The end of its output:");
    expect(log).toContain("\nthe last line\n```\n");
    expect(parseStagingStatus(log)).toBe("SUCCESS");
  });
});

describe("Tail", () => {
  test("holds the end of what was appended, however it was cut up", () => {
    fc.assert(
      fc.property(
        fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 60 }),
        fc.integer({ min: 1, max: 64 }),
        (chunks, limit) => {
          const tail = new Tail(limit);
          for (const chunk of chunks) tail.append(chunk);
          const all = Buffer.concat(chunks);
          expect(tail.total).toBe(all.length);
          expect(Buffer.from(tail.bytes())).toEqual(all.subarray(Math.max(0, all.length - limit)));
        },
      ),
    );
  });

  test("does not keep the buffer alive that a chunk is a view of", () => {
    const buffer = new Uint8Array(100).fill(1);
    const tail = new Tail(10);
    tail.append(buffer.subarray(0, 5));
    buffer.fill(2);
    expect([...tail.bytes()]).toEqual([1, 1, 1, 1, 1]);
  });
});
