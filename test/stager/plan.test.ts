import { describe, expect, test } from "vitest";
import { MAX_PLAN_BYTES, type Plan, type PlanReading, readPlan } from "../../services/stager/plan.ts";

const read = (text: string): PlanReading => readPlan({ kind: "file", content: new TextEncoder().encode(text) });

const planOf = (text: string): Plan => {
  const reading = read(text);
  if (reading.kind === "invalid") throw new Error(reading.faults.join("\n"));
  return reading.plan;
};

const faultsOf = (text: string): string[] => {
  const reading = read(text);
  return reading.kind === "invalid" ? reading.faults : [];
};

const steps = (...lines: string[]): string => `version: 1\nsteps:\n${lines.map((line) => `  - ${line}\n`).join("")}`;

describe("a plan that is right", () => {
  test("the contract's example", () => {
    const plan = planOf(`version: 1
timeout_s: 900              # the whole run
env: { APP_PORT: "9000" }
steps:
  - name: build
    run: [npm, run, build]
    timeout_s: 300
    infra_exit_codes: [75, 69]
  - name: smoke
    http:
      { method: POST, url: "http://127.0.0.1:9000/healthz", headers: { X-Commit: "{commit}" }, status: 201, body: "{commit}", attempts: 10, interval_s: 0.5, timeout_s: 3 }
teardown:
  - name: stop
    run: ./scripts/stop.sh
`);
    expect(plan).toEqual({
      timeoutMs: 900_000,
      env: { APP_PORT: "9000" },
      steps: [
        {
          kind: "run",
          name: "build",
          timeoutMs: 300_000,
          command: { kind: "argv", argv: ["npm", "run", "build"] },
          infraExitCodes: [75, 69],
        },
        {
          kind: "http",
          name: "smoke",
          timeoutMs: null,
          http: {
            method: "POST",
            url: "http://127.0.0.1:9000/healthz",
            headers: { "X-Commit": "{commit}" },
            status: 201,
            body: "{commit}",
            attempts: 10,
            intervalMs: 500,
            timeoutMs: 3000,
          },
        },
      ],
      teardown: [
        {
          kind: "run",
          name: "stop",
          timeoutMs: 60_000,
          command: { kind: "shell", script: "./scripts/stop.sh" },
          infraExitCodes: [75],
        },
      ],
    });
  });

  test("what is left out has its default", () => {
    const plan = planOf(steps("{ name: a, run: x }", '{ name: b, http: { url: "https://host/{branch}" } }'));
    expect(plan.timeoutMs).toBe(900_000);
    expect(plan.env).toEqual({});
    expect(plan.teardown).toEqual([]);
    expect(plan.steps[0]).toMatchObject({ timeoutMs: null, infraExitCodes: [75] });
    expect(plan.steps[1]).toMatchObject({
      http: { method: "GET", headers: {}, status: 200, body: null, attempts: 1, intervalMs: 1000, timeoutMs: 5000 },
    });
  });

  test("codes may be emptied, blocks of text and anchors used", () => {
    const plan = planOf(
      `version: 1
steps:
  - name: a
    run: |
      set -e
      echo "- - - {"
    infra_exit_codes: &none []
  - { name: b, run: [true], infra_exit_codes: *none }
`.replace("[true]", '["true"]'),
    );
    expect(plan.steps).toMatchObject([
      { command: { kind: "shell", script: 'set -e\necho "- - - {"\n' }, infraExitCodes: [] },
      { infraExitCodes: [] },
    ]);
  });
});

describe("a plan that is not one", () => {
  test.each([
    [
      "missing",
      readPlan({ kind: "missing" }),
      "there is no such file at this commit: commit one (version: 1, and steps that each have a name and run or http)",
    ],
    ["a link", readPlan({ kind: "not_regular", mode: "120000" }), "expected a regular file, found git mode 120000"],
    ["too large", readPlan({ kind: "too_large", bytes: 99_999 }), "the file has 99999 bytes, at most 65536 are read"],
    ["not UTF-8", readPlan({ kind: "file", content: Uint8Array.of(0x76, 0xff) }), "the file is not UTF-8"],
    ["empty", read(""), "found nothing, accepted: a mapping with version"],
    ["a list", read("- a"), "found a list, accepted: a mapping with version"],
    ["text", read("hello"), 'found "hello", accepted: a mapping with version'],
  ])("%s", (_, reading, fault) => {
    expect(reading).toEqual({ kind: "invalid", faults: [expect.stringContaining(fault)] });
  });

  test("all faults are told at once, each with its line and key", () => {
    expect(
      faultsOf(`version: 2
timeout_s: 0
env: { A: 1, ORCH_RUN_ID: "7", "a b": "" }
steps:
  - name: a
  - { name: b, run: [] }
  - { name: c, run: [1] }
  - { run: x }
  - { name: "d\\te", run: x, timeout_s: 5m, retries: 3 }
  - name: e
    http: { url: "ftp://host", status: 20, attempts: 1.5, verify: false, headers: { "a b": x, C: "x\\ny" } }
    infra_exit_codes: [0]
teardown:
more: 1
`),
    ).toEqual([
      "line 1: version: found 2, accepted: 1",
      "line 2: timeout_s: found 0, accepted: seconds as a number from 0.001 to 86400",
      "line 3: env.A: found 1, accepted: text (put it in quotes)",
      'line 3: env.ORCH_RUN_ID: found "ORCH_RUN_ID", accepted: another name: those with ORCH_ are set by the staging runner',
      'line 3: env["a b"]: found "a b", accepted: a name of letters, digits and _',
      "line 5: steps[0]: found a mapping, accepted: either run or http, and not both",
      "line 6: steps[1].run: found an empty list, accepted: a list (program and arguments, all text) or a string (for sh -c)",
      "line 7: steps[2].run: found a list, accepted: a list (program and arguments, all text) or a string (for sh -c)",
      "line 8: steps[3].name: missing",
      'line 9: steps[4].name: found "d\\te", accepted: one line of text without control characters',
      'line 9: steps[4].timeout_s: found "5m", accepted: seconds as a number from 0.001 to 86400',
      "line 9: steps[4].retries: unknown key",
      'line 11: steps[5].http.url: found "ftp://host", accepted: an http:// or https:// URL',
      'line 11: steps[5].http.headers["a b"]: found "a b", accepted: the name of a header',
      'line 11: steps[5].http.headers.C: found "x\\ny", accepted: one line of text',
      "line 11: steps[5].http.status: found 20, accepted: a whole number from 200 to 599",
      "line 11: steps[5].http.attempts: found 1.5, accepted: a whole number from 1 to 1000",
      "line 11: steps[5].http.verify: unknown key",
      "line 12: steps[5].infra_exit_codes[0]: found 0, accepted: a whole number from 1 to 255",
      "line 13: teardown: found nothing, accepted: a list of at most 20 steps",
      "line 14: more: unknown key",
    ]);
  });

  test.each([
    ["no steps", "version: 1\nsteps: []", "from 1 to 100 steps"],
    ["a name twice", steps("{ name: a, run: x }", "{ name: a, run: y }"), "a different name for each step"],
    ["run and http", steps('{ name: a, run: x, http: { url: "http://h" } }'), "either run or http, and not both"],
    [
      "exit codes of an http check",
      steps('{ name: a, http: { url: "http://h" }, infra_exit_codes: [3] }'),
      "beside run only",
    ],
    ["NUL in an argument", steps('{ name: a, run: [a, "b\\0"] }'), "all text"],
    ["NUL in a value", `${steps("{ name: a, run: x }")}env: { A: "\\0" }`, "text without NUL"],
    ["a limit that is no number", steps("{ name: a, run: x, timeout_s: .inf }"), "found Infinity"],
    ["a duplicate key", "version: 1\nversion: 1\nsteps: []", 'line 2: duplicate key "version"'],
    ["a tag", steps("{ name: a, run: !!js x }"), "line 3: a tag that is not accepted"],
    ["a second document", `${steps("{ name: a, run: x }")}---\na: 1`, "line 4: a second YAML document"],
    ["a tab", "version: 1\nsteps:\n\t- name: a", "line 3: a tab is used as indentation"],
    [
      "more steps than anybody needs",
      steps(...Array.from({ length: 101 }, (_, i) => `{ name: s${i}, run: x }`)),
      "from 1 to 100 steps",
    ],
  ])("%s", (_, text, fault) => {
    expect(faultsOf(text)).toEqual([expect.stringContaining(fault)]);
  });

  test("a mistake that stands on every line is told thirty times", () => {
    const faults = faultsOf(steps(...Array.from({ length: 100 }, (_, i) => `{ name: s${i}, rum: x }`)));
    expect(faults).toHaveLength(31);
    expect(faults.at(-1)).toBe("and 70 faults more");
  });

  test.each([
    ["lists in lists", "- ".repeat(30_000)],
    ["keys in keys", "? ".repeat(30_000)],
    ["brackets", "[".repeat(60_000)],
    [
      "aliases of aliases",
      `a: &a [x,x,x,x,x,x,x,x,x]\n${["b", "c", "d", "e", "f"].map((k, i) => `${k}: &${k} [${Array(9).fill(`*${"abcde"[i]}`).join()}]\n`).join("")}`,
    ],
    ["an endless one", "a: &a [*a]"],
    ["a large one", "x".repeat(MAX_PLAN_BYTES + 1)],
  ])("a hostile text does no harm: %s", (_, text) => {
    expect(read(text).kind).toBe("invalid");
  });
});
