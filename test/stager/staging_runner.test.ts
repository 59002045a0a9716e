import { readdir, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { readGate } from "@orchestrator/shared/artifact.ts";
import { appendMarker, countMarkers } from "@orchestrator/shared/defer.ts";
import { DEFAULT_PIPELINE, findStage } from "@orchestrator/shared/pipeline.ts";
import type { StagingResult } from "@orchestrator/shared/schemas/staging_run.ts";
import { describe, expect, onTestFinished, test } from "vitest";
import { isDeno } from "../helpers/runtime.ts";
import { BRANCH, fingerprint, freePort, makeStager, type TestStager } from "./harness.ts";

const steps = (...lines: string[]): string => `version: 1\nsteps:\n${lines.map((line) => `  - ${line}\n`).join("")}`;

/** What the scheduler's gate makes of the artifact. */
const gateOf = (result: StagingResult, runId = 9) =>
  readGate(
    { kind: "file", content: new TextEncoder().encode(result.artifact?.content ?? "") },
    { workItemId: "ORCH-115", stage: findStage(DEFAULT_PIPELINE, "deploy-staging")!, runId, commit: result.commit },
  );

/** Nothing runs any more, and nothing of the run is left in the scratch directory. */
const expectNothingLeft = async ({ processes, scratch }: TestStager): Promise<void> => {
  expect(processes()).toBe(0);
  expect(await readdir(join(scratch.folder, "runs"))).toEqual([]);
};

/** A server that tells which commit it serves, on the runtime that the suite runs on. */
const SERVER = `
import { createServer } from "node:http";
import { writeFileSync } from "node:fs";
const server = createServer((_, response) => response.end(JSON.stringify({ commit: process.env.ORCH_COMMIT })));
server.listen(Number(process.env.APP_PORT), "127.0.0.1", () => { console.log("listening"); writeFileSync("up", ""); });
`;
const serverPlan = (port: number): string => `version: 1
env: { APP_PORT: "${port}" }
steps:
  - name: deploy
    timeout_s: 20
    run: ${process.execPath} ${isDeno ? "run -A" : ""} server.mjs & until [ -e up ]; do sleep 0.05; done
  - name: smoke
    http: { url: "http://127.0.0.1:${port}/version", body: '{"commit":"{commit}"}', attempts: 20, interval_s: 0.1 }
teardown:
  - { name: farewell, run: [echo, bye] }
`;

describe("a run from its commit to the verdict", () => {
  test("a branch that is deployed and answers: success, advance, and nothing is left", async () => {
    const port = await freePort();
    const stager = await makeStager({ plan: serverPlan(port), files: { "server.mjs": SERVER } });
    const { mirror } = stager;
    const before = await fingerprint(mirror.gitDir);
    const { events, steps, output, result } = await stager.run();
    expect(events[0]).toEqual({
      event: "started",
      job_id: 7,
      run_id: 9,
      commit: mirror.commit,
      branch: BRANCH,
      at: expect.stringMatching(/^\d{4}-.*Z$/),
    });
    expect(steps).toEqual([
      "deploy started",
      "deploy passed",
      "smoke started",
      "smoke passed",
      "farewell started",
      "farewell passed",
    ]);
    expect(output).toContain("listening\n");
    expect(result).toMatchObject({
      verdict: "success",
      class: null,
      action: "advance",
      reason: "all 2 steps passed",
      commit: mirror.commit,
      artifact: { path: "docs/work-items/ORCH-115/15-staging-log.md" },
    });
    expect(gateOf(result)).toEqual({ kind: "pass", value: "SUCCESS" });
    await expectNothingLeft(stager);
    expect(await fingerprint(mirror.gitDir)).toEqual(before);
    await expect(fetch(`http://127.0.0.1:${port}/version`)).rejects.toThrow();
  });

  test("the same commit and the same answers give the same artifact but for times and run_id", async () => {
    const stager = await makeStager({ plan: serverPlan(await freePort()), files: { "server.mjs": SERVER } });
    const artifact = async (runId: number): Promise<string> => {
      const { result } = await stager.run(runId);
      expect(gateOf(result, runId).kind).toBe("pass");
      return result.artifact!.content.replace(/^run_id: .*$/m, "run_id: x").replace(/\| \d+\.\d \|$/gm, "| s |");
    };
    const first = await artifact(9);
    expect(first).toContain("listening");
    expect(await artifact(10)).toBe(first);
    expect(await artifact(11)).toBe(first);
  });

  test("an old instance that still answers is no success", async () => {
    const old = createServer((_, response) => response.end('{"commit":"an older one"}'));
    await new Promise<void>((resolve) => old.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void old.close());
    const url = `http://127.0.0.1:${(old.address() as AddressInfo).port}`;
    const plan = steps(
      `{ name: smoke, http: { url: "${url}/version", body: "{commit}", attempts: 2, interval_s: 0 } }`,
    );
    const { result } = await (await makeStager({ plan })).run();
    expect(result).toMatchObject({
      verdict: "failed",
      action: "return",
      reason: `step smoke: ${url}/version answered 200 without the expected text (2 attempts)`,
    });
    expect(result.artifact!.content).toContain('{"commit":"an older one"}');
  });

  test("the first step that does not pass ends the run; the teardown runs and cannot change the verdict", async () => {
    const plan = `${steps("{ name: one, run: echo one }", "{ name: two, run: echo why >&2; exit 3 }", "{ name: three, run: touch /no }")}
teardown:
  - { name: broken, run: [no-such-command] }
  - { name: last, run: echo cleaned up }
`;
    const stager = await makeStager({ plan });
    const { result, steps: told, output } = await stager.run();
    expect(told).toEqual([
      ...["one started", "one passed", "two started", "two failed"],
      ...["broken started", "broken tool_error", "last started", "last passed"],
    ]);
    expect(output).toBe("one\nwhy\ncleaned up\n");
    expect(result).toMatchObject({
      verdict: "failed",
      class: null,
      action: "return",
      reason: "step two: exited with 3",
    });
    expect(gateOf(result)).toEqual({ kind: "fail", value: "FAILED", onFail: "development" });
    expect(result.artifact!.content).toContain("| three | not run |  |  |");
    expect(result.artifact!.content).toMatch(/\| two \| failed \| 3 \| \d+\.\d \|/);
    await expectNothingLeft(stager);
  });

  test("the whole run has a limit of its own", async () => {
    const plan = `timeout_s: 2\n${steps("{ name: quick, run: ['true'] }", "{ name: slow, run: sleep 60, timeout_s: 50 }")}`;
    const { result } = await (await makeStager({ plan })).run();
    expect(result).toMatchObject({
      verdict: "failed",
      reason: "step slow: did not end within the 2 s of the whole run",
    });
  });

  test("which is not the teardown's: a step of it has as long as its own limit says", async () => {
    const plan = `timeout_s: 1
${steps("{ name: deploy, run: ['true'], timeout_s: 30 }")}teardown:
  - { name: patient, run: sleep 2; echo cleaned up, timeout_s: 30 }
  - { name: stuck, run: sleep 60, timeout_s: 0.2 }
`;
    const { result, steps: told, output } = await (await makeStager({ plan })).run();
    expect(told.slice(2)).toEqual(["patient started", "patient passed", "stuck started", "stuck failed"]);
    expect(output).toBe("cleaned up\n");
    expect(result.artifact!.content).toContain("did not end within its 0.2 s");
  });
});

describe("what says nothing about the work", () => {
  const plan = steps("{ name: push, run: [no-such-command-here] }");

  test("leaves no artifact and is put off", async () => {
    const { result } = await (await makeStager({ plan })).run();
    expect(result).toEqual({
      event: "result",
      verdict: "tool_error",
      class: "command_not_found",
      action: "defer",
      reason: "step push: no-such-command-here is not found on the stager's machine",
      commit: expect.any(String),
      artifact: null,
    });
  });

  test("is blocked when it has been put off often enough, with the last reason", async () => {
    let taskContent = "Ship it.";
    while (countMarkers(taskContent) < 10)
      taskContent = appendMarker(taskContent, new Date().toISOString(), "no docker");
    const { result } = await (await makeStager({ plan, job: { taskContent } })).run();
    expect(result).toMatchObject({ verdict: "tool_error", action: "block" });
    expect(result.reason).toMatch(/^step push: no-such-command-here .*; put off 10 times/);
  });

  test.each<[string, Parameters<typeof makeStager>[0], string, RegExp]>([
    [
      "a commit that the mirror does not have",
      { job: { head: "f".repeat(40) } },
      "git_ref",
      /^commit f{40} is not in the mirror/,
    ],
    ["a task without a head", { job: { head: null } }, "git_ref", /^the task's head is not set/],
    ["a head that is an option", { job: { head: "--help" } }, "git_ref", /^the task's head is --help/],
    [
      "a repository without a mirror",
      { job: { repo: "other" }, repo: {} },
      "unknown_repo",
      /^the repository other is not in/,
    ],
    [
      "a repository named like a method",
      { job: { repo: "constructor" } },
      "unknown_repo",
      /^the repository constructor/,
    ],
    [
      "a base branch that is not there",
      { job: { baseBranch: "gone" }, repo: { plan: "base" } },
      "git_ref",
      /^the plan is to come from gone/,
    ],
  ])("%s", async (_, options, errorClass, reason) => {
    const stager = await makeStager({ plan, ...options });
    const { result } = await stager.run();
    expect(result).toMatchObject({ verdict: "tool_error", class: errorClass, action: "defer", artifact: null });
    expect(result.reason).toMatch(reason);
    await expectNothingLeft(stager);
  });

  test("a mirror that is not there", async () => {
    const stager = await makeStager({ plan });
    await rm(stager.mirror.gitDir, { recursive: true });
    expect((await stager.run()).result).toMatchObject({
      verdict: "tool_error",
      class: "git_ref",
      reason: expect.stringMatching(/^the mirror .*shop\.git cannot be read \(ENOENT\)/),
    });
  });

  test("an exception of the runner's own", async () => {
    const stager = await makeStager({ plan });
    stager.scratch.makeRunFolder = () => Promise.reject(new TypeError("boo"));
    expect((await stager.run()).result).toMatchObject({
      verdict: "tool_error",
      class: "exception",
      action: "defer",
      reason: "the staging runner itself failed: boo",
    });
    stager.scratch.makeRunFolder = () => Promise.reject(Object.assign(new Error("full"), { code: "ENOSPC" }));
    expect((await stager.run(10)).result.class).toBe("no_space");
  });
});

describe("the plan", () => {
  test("a missing one is the work's fault, and the artifact says so", async () => {
    const stager = await makeStager();
    const { result, steps: told } = await stager.run();
    expect(told).toEqual([]);
    expect(result).toMatchObject({
      verdict: "failed",
      action: "return",
      reason:
        ".orchestrator/staging.yaml: there is no such file at this commit: commit one (version: 1, and steps that each have a name and run or http)",
    });
    expect(gateOf(result).kind).toBe("fail");
    expect(result.artifact!.content).toContain("## Faults of the plan");
    await expectNothingLeft(stager);
  });

  test("all that is wrong with one stands in the artifact", async () => {
    const { result } = await (await makeStager({ plan: "version: 1\nsteps: 3\nmore: 4\n" })).run();
    expect(result.reason).toBe(
      ".orchestrator/staging.yaml: line 2: steps: found 3, accepted: a list of from 1 to 100 steps (and 1 faults more)",
    );
    expect(result.artifact!.content).toContain("\nline 3: more: unknown key\n");
  });

  test("is read from the commit, not from what the branch is by now", async () => {
    const stager = await makeStager({ plan: steps("{ name: then, run: ['true'] }") });
    await stager.mirror.commitFiles({ ".orchestrator/staging.yaml": steps("{ name: now, run: ['false'] }") });
    expect((await stager.run()).steps).toEqual(["then started", "then passed"]);
  });

  test("of a branch that differs from the base's is told of, and used only where the branch's counts", async () => {
    const options = {
      plan: steps("{ name: mine, run: ['true'] }"),
      baseFiles: { ".orchestrator/staging.yaml": steps("{ name: theirs, run: ['true'] }") },
    };
    const ofBranch = await (await makeStager(options)).run();
    expect(ofBranch.steps).toEqual(["mine started", "mine passed"]);
    expect(ofBranch.result.reason).toBe("the step passed; the branch's staging plan differs from that of main");
    expect(ofBranch.result.artifact!.content).toContain("> the branch's staging plan differs from that of main\n");
    const ofBase = await (await makeStager({ ...options, repo: { plan: "base" } })).run();
    expect(ofBase.steps).toEqual(["theirs started", "theirs passed"]);
    expect(ofBase.result.reason).toBe(
      "the step passed; the branch's staging plan differs from that of main, which is the one that was used",
    );
  });
});

describe("what steps are given", () => {
  test("the allow-list, the plan's values and the run's own; no secret of the stager", async () => {
    const plan = `env: { GREETING: hello }\n${steps("{ name: show, run: env }")}`;
    const parentEnv = {
      ...{ PATH: "/usr/bin:/bin", HOME: "/nowhere", LC_ALL: "C.UTF-8", HTTPS_PROXY: "http://proxy" },
      ...{ ORCH_STAGER_TOKEN: "secret", AWS_SECRET_ACCESS_KEY: "secret", GREETING: "from outside" },
    };
    const stager = await makeStager({ plan, parentEnv });
    const { output } = await stager.run();
    const names = output.split("\n").map((line) => line.split("=")[0]);
    expect(output).not.toContain("secret");
    const expected = [
      ...["GREETING=hello", "PATH=/usr/bin:/bin", "HOME=/nowhere", "LC_ALL=C.UTF-8", "HTTPS_PROXY=http://proxy"],
      ...[`ORCH_INSTANCE_ID=${stager.instanceId}`, "ORCH_RUN_ID=9", `ORCH_COMMIT=${stager.mirror.commit}`],
      ...[`ORCH_BRANCH=${BRANCH}`, "ORCH_WORK_ITEM_ID=ORCH-115"],
    ];
    for (const line of expected) expect(output.split("\n")).toContain(line);
    expect(names.filter((name) => name?.startsWith("ORCH_")).sort()).toEqual([
      "ORCH_BRANCH",
      "ORCH_CACHE_DIR",
      "ORCH_COMMIT",
      "ORCH_INSTANCE_ID",
      "ORCH_RUN_ID",
      "ORCH_WORK_ITEM_ID",
    ]);
  });

  test("a fresh checkout with a git of its own, from which nothing gets into the mirror", async () => {
    const script = `set -e
test "$(git rev-parse HEAD)" = "$ORCH_COMMIT"
test -z "$(git status --porcelain)"
test -x scripts/run.sh && ./scripts/run.sh
test ! -e leftover && touch leftover
git -c user.name=x -c user.email=x@x commit -q --allow-empty -m "from a step"
git gc -q
`;
    const plan = `version: 1\nsteps:\n  - name: look\n    run: |\n${script.replace(/^/gm, "      ")}`;
    const stager = await makeStager({ plan, files: { "scripts/run.sh": "#!/bin/sh\necho ran\n" } });
    const before = await fingerprint(stager.mirror.gitDir);
    for (const runId of [9, 10]) {
      const { result, output } = await stager.run(runId);
      expect(result.reason).toBe("the step passed");
      expect(output).toContain("ran\n");
    }
    expect(await fingerprint(stager.mirror.gitDir)).toEqual(before);
  });

  test("a cache that lasts from one run to the next", async () => {
    const plan = steps('{ name: use, run: echo x >> "$ORCH_CACHE_DIR/count"; wc -l < "$ORCH_CACHE_DIR/count" }');
    const stager = await makeStager({ plan });
    expect((await stager.run(9)).output.trim()).toBe("1");
    expect((await stager.run(10)).output.trim()).toBe("2");
  });
});
