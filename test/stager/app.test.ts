import { readFile } from "node:fs/promises";
import { request as httpRequest } from "node:http";
import { join } from "node:path";
import { serve } from "@orchestrator/shared/serve.ts";
import type { StagingJob } from "@orchestrator/shared/storage/read_staging_job.ts";
import { describe, expect, onTestFinished, test } from "vitest";
import { whyNotThisRun } from "../../services/stager/staging_job.ts";
import { eventsOf, makeStager, readRun, type TestStager, until } from "./harness.ts";

const steps = (...lines: string[]): string => `version: 1\nsteps:\n${lines.map((line) => `  - ${line}\n`).join("")}`;
/** Notes in the cache, which outlives the run, that the step runs and that the teardown has run. */
const HANGING = `${steps('{ name: hang, run: "sleep 60 & sleep 60 & touch $ORCH_CACHE_DIR/hangs; wait" }')}
teardown:
  - { name: down, run: "touch $ORCH_CACHE_DIR/torn-down" }
`;
const noted = async ({ folder }: TestStager, name: string): Promise<boolean> =>
  readFile(join(folder, "scratch", "cache", "shop", name)).then(
    () => true,
    () => false,
  );

const codeOf = async (response: Response) => ({
  status: response.status,
  code: ((await response.json()) as { code: string }).code,
});

describe("POST /runs", () => {
  const job: StagingJob = {
    workItemId: "ORCH-115",
    repo: "shop",
    branch: "b",
    baseBranch: "main",
    head: null,
    stage: "deploy-staging",
    taskContent: "",
    agent: "deployer",
    jobStatus: "running",
    jobRunId: 9,
    taskStatus: "active",
  };

  test.each<[string, StagingJob | null, string | null]>([
    ["this run's", job, null],
    ["not there", null, "there is no job 7 of a task 3"],
    ["queued", { ...job, jobStatus: "queued" }, "job 7 is queued, expected running"],
    ["done", { ...job, jobStatus: "done" }, "job 7 is done, expected running"],
    ["another run's", { ...job, jobRunId: 10 }, "job 7 belongs to run 10, not to run 9"],
    ["nobody's", { ...job, jobRunId: null }, "job 7 belongs to run none, not to run 9"],
    ["another agent's", { ...job, agent: "tester" }, "job 7 is for tester, expected deployer"],
    ["a deployer's of another stage", { ...job, stage: "deploy" }, "task 3 is in deploy, expected deploy-staging"],
  ])("whether a job is to be run: %s", (_, found, why) => {
    expect(whyNotThisRun(found, { job_id: 7, run_id: 9, task_id: 3 })).toBe(why);
  });

  test("refuses what is no staging job, and what it cannot read", async () => {
    const { post, app } = await makeStager();
    expect(await codeOf(await post({ job_id: 7, run_id: 10, task_id: 3 }))).toEqual({
      status: 409,
      code: "not_a_staging_job",
    });
    expect(await codeOf(await post({ job_id: 8, run_id: 9, task_id: 3 }))).toEqual({
      status: 409,
      code: "not_a_staging_job",
    });
    expect(await codeOf(await post({ job_id: 7, run_id: 9 }))).toEqual({ status: 422, code: "invalid_input" });
    expect(await codeOf(await post({ job_id: 7, run_id: 9, task_id: 3, commit: "x" }))).toEqual({
      status: 422,
      code: "invalid_input",
    });
    expect((await app.request("/runs")).status).toBe(405);
    const broken = await makeStager({ readJob: () => Promise.reject(new Error("no such file")) });
    expect(await codeOf(await broken.post())).toEqual({ status: 503, code: "unavailable" });
    expect(broken.runs.list()).toEqual([]);
  });

  test("asks for the token where there is one; probes and figures are open", async () => {
    const { post, app } = await makeStager({ token: "a-token", plan: steps("{ name: a, run: ['true'] }") });
    const refused = await post();
    expect(refused.headers.get("www-authenticate")).toContain("Bearer");
    expect(await codeOf(refused)).toEqual({ status: 401, code: "unauthorized" });
    expect((await post(undefined, { authorization: "Bearer another" })).status).toBe(401);
    expect((await readRun(await post(undefined, { authorization: "Bearer a-token" }))).result.verdict).toBe("success");
    for (const path of ["/queue", "/healthz", "/readyz"]) expect((await app.request(path)).status).toBe(200);
  });

  test("answers with a stream of lines", async () => {
    const { post } = await makeStager({ plan: steps("{ name: a, run: ['true'] }") });
    const response = await post();
    expect(response.headers.get("content-type")).toBe("application/x-ndjson");
    await readRun(response);
  });

  test("a run that is being worked already is not worked twice", async () => {
    const stager = await makeStager({ plan: HANGING });
    const first = await stager.post();
    expect(await codeOf(await stager.post())).toEqual({ status: 409, code: "invalid_state" });
    await first.body!.cancel();
  });

  test("is documented", async () => {
    const { app } = await makeStager();
    const document = (await (await app.request("/openapi.json")).json()) as { paths: Record<string, object> };
    expect(Object.keys(document.paths).sort()).toEqual(["/healthz", "/openapi.json", "/queue", "/readyz", "/runs"]);
    expect(JSON.stringify(document.paths["/runs"])).toContain("application/x-ndjson");
  });
});

test("GET /queue counts what was run, and shows what runs", async () => {
  const plan = steps(
    '{ name: wait, run: "until [ -e $ORCH_CACHE_DIR/go ]; do sleep 0.02; done" }',
    "{ name: b, run: exit 1 }",
  );
  const stager = await makeStager({ plan });
  const queue = async () => (await (await stager.app.request("/queue")).json()) as Record<string, unknown>;
  expect(await queue()).toMatchObject({
    staging_runner: { runs: 0, success: 0, failed: 0, tool_error: 0, deferred: 0 },
    active: [],
  });
  const running = stager.run();
  await until(() => stager.runs.list()[0]?.step === "wait");
  expect(await queue()).toEqual({
    time: expect.stringMatching(/Z$/),
    staging_runner: { runs: 1, success: 0, failed: 0, tool_error: 0, deferred: 0 },
    active: [
      {
        job_id: 7,
        run_id: 9,
        task_id: 3,
        work_item_id: "ORCH-115",
        step: "wait",
        started_at: expect.stringMatching(/Z$/),
      },
    ],
  });
  const { writeFile } = await import("node:fs/promises");
  await writeFile(join(stager.folder, "scratch", "cache", "shop", "go"), "");
  expect((await running).result.verdict).toBe("failed");
  await until(() => stager.runs.list().length === 0);
  stager.job.head = "f".repeat(40);
  expect((await stager.run(10)).result.action).toBe("defer");
  expect(await queue()).toMatchObject({
    staging_runner: { runs: 2, success: 0, failed: 1, tool_error: 1, deferred: 1 },
    active: [],
  });
});

describe("the life of a run", () => {
  test("a heartbeat tells that it goes on while a step says nothing", async () => {
    const stager = await makeStager({ plan: steps("{ name: a, run: sleep 0.5 }"), heartbeatMs: 50 });
    const { events } = await stager.run();
    expect(events.filter(({ event }) => event === "heartbeat").length).toBeGreaterThanOrEqual(3);
  });

  /** How the connection of a run is lost. */
  const leaving: [string, (stager: TestStager) => Promise<() => Promise<void>>][] = [
    [
      "the reader of the stream cancels it",
      async (stager) => {
        const response = await stager.post();
        return () => response.body!.cancel();
      },
    ],
    [
      "the connection is cut",
      async (stager) => {
        const server = await serve({ fetch: stager.app.fetch as never, host: "127.0.0.1", port: 0, onError: () => {} });
        onTestFinished(() => server.close(100));
        const client = httpRequest({
          ...{ host: "127.0.0.1", port: server.port, path: "/runs", method: "POST", agent: false },
          headers: { "content-type": "application/json" },
        });
        client.on("error", () => {});
        client.on("response", (response) => response.on("error", () => {}).resume());
        client.end(JSON.stringify({ job_id: 7, run_id: 9, task_id: 3 }));
        return async () => void client.destroy();
      },
    ],
  ];

  test.each(leaving)("%s: the run's processes are ended, and the teardown runs", async (_, connect) => {
    const stager = await makeStager({ plan: HANGING });
    const leave = await connect(stager);
    await until(() => noted(stager, "hangs"));
    expect(stager.processes()).toBeGreaterThanOrEqual(3);
    expect(await noted(stager, "torn-down")).toBe(false);
    await leave();
    await until(() => stager.runs.list().length === 0);
    expect(await noted(stager, "torn-down")).toBe(true);
    expect(stager.processes()).toBe(0);
    expect(await (await stager.app.request("/queue")).json()).toMatchObject({
      staging_runner: { runs: 1, tool_error: 1 },
    });
  });

  test("a step that does not listen and a teardown that leaves something behind are ended too", async () => {
    const plan = `${steps(`{ name: hang, run: "trap '' TERM; touch $ORCH_CACHE_DIR/hangs; while :; do sleep 0.05; done" }`)}
teardown:
  - { name: down, run: "setsid sleep 60 & touch $ORCH_CACHE_DIR/torn-down" }
`;
    const stager = await makeStager({ plan, killGraceMs: 200 });
    const response = await stager.post();
    await until(() => noted(stager, "hangs"));
    await response.body!.cancel();
    await until(() => stager.runs.list().length === 0);
    expect(await noted(stager, "torn-down")).toBe(true);
    expect(stager.processes()).toBe(0);
  });

  test("a job that is no longer this run's is given up", async () => {
    const stager = await makeStager({ plan: HANGING, rereadMs: 20 });
    const running = stager.run();
    await until(() => noted(stager, "hangs"));
    stager.job.jobRunId = 10;
    const { result, steps: told } = await running;
    expect(result).toMatchObject({
      verdict: "tool_error",
      class: "superseded",
      reason: "job 7 belongs to run 10, not to run 9",
      artifact: null,
    });
    expect(told).toEqual(["hang started", "down started", "down passed"]);
    expect(stager.processes()).toBe(0);
  });

  test("a database that cannot be read for a moment does no harm, one that stays away ends the run", async () => {
    let failing = 0;
    let reads = 0;
    const stager = await makeStager({
      plan: HANGING,
      rereadMs: 10,
      readJob: async () => {
        reads += 1;
        if (failing > 0 && failing-- > 0) throw new Error("database is locked");
        return stager.job;
      },
    });
    const running = stager.run();
    await until(() => noted(stager, "hangs"));
    failing = 5;
    const seen = reads;
    await until(() => reads > seen + 7);
    expect(stager.runs.list()).toHaveLength(1);
    failing = 6;
    expect((await running).result).toMatchObject({
      verdict: "tool_error",
      class: "database",
      reason: "the job could not be read again 6 times in a row: database is locked",
    });
  });

  test("a stager that stops tears down, says so, and takes no more runs", async () => {
    const stager = await makeStager({ plan: HANGING });
    const running = stager.run();
    await until(() => noted(stager, "hangs"));
    await stager.runs.stop();
    expect((await running).result).toMatchObject({ verdict: "tool_error", class: "stager_stopped", action: "defer" });
    expect(await noted(stager, "torn-down")).toBe(true);
    expect(await codeOf(await stager.post())).toEqual({ status: 503, code: "unavailable" });
  });

  test("whoever reads slowly loses output but no event, and holds nothing up", async () => {
    const plan = steps("{ name: flood, run: head -c 30000000 /dev/zero }", "{ name: next, run: echo next }");
    const stager = await makeStager({ plan });
    const response = await stager.post();
    await until(() => stager.runs.list().length === 0);
    let text = "";
    const kinds: string[] = [];
    for await (const event of eventsOf(response.body!)) {
      if (event.event === "output") text += event.text;
      else kinds.push(event.event === "step" ? `${event.name} ${event.state}` : event.event);
    }
    expect(kinds).toEqual(["started", "flood started", "flood passed", "next started", "next passed", "result"]);
    expect(text.length).toBeLessThan(400_000);
    expect(text).toMatch(
      /\n\[\d+ bytes of output were dropped here: they came faster than they were read\]\n(next\n)?$/,
    );
  });
});
