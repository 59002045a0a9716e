import { countMarkers } from "@orchestrator/shared/defer.ts";
import { writeFrontmatter } from "@orchestrator/shared/frontmatter.ts";
import { openReadOnly } from "@orchestrator/shared/storage/open.ts";
import { describe, expect, test } from "vitest";
import { deferred } from "../helpers/deferred.ts";
import { type StagingCallSeen, startFakeStager } from "../helpers/fake_stager.ts";
import { git } from "../helpers/git.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../helpers/scheduler.ts";

const ARTIFACT = "docs/work-items/ORCH-1/15-staging-log.md";

const stagingLog = (status: string, runId: number, commit: string): string =>
  writeFrontmatter(
    {
      work_item: "ORCH-1",
      stage: "deploy-staging",
      author_agent: "staging-runner",
      status: "completed",
      created_at: "2026-01-01",
      model_used: "n/a",
      staging_status: status,
      run_id: runId,
      commit,
    },
    "# Staging log\n",
  );

type Answer = (call: StagingCallSeen, commit: string) => void | Promise<void>;

/** Starts a scheduler, a stager that answers as told, and an item that stands before staging. */
const stage = async (answer: Answer, config: object = {}) => {
  const site = await makeSite({ stagingRunnerEnabled: true, ...config });
  const commitOf = () => git(site.remote, "rev-parse", "refs/heads/work/ORCH-1");
  const stager = await startFakeStager(async (call) => answer(call, await commitOf()));
  const scheduler = await startTestScheduler(site, { config: { stagerUrl: stager.url, stagerToken: "s3cret" } });
  await postTask(scheduler, { workItemId: "ORCH-1", stage: "testing" });
  return { site, scheduler, stager, commitOf };
};

const started = ({ request }: StagingCallSeen, commit: string) => ({
  event: "started",
  ...request,
  task_id: undefined,
  commit,
  branch: "work/ORCH-1",
  at: "2026-01-01T00:00:00.000Z",
});

const verdict = (result: "success" | "failed", { request }: StagingCallSeen, commit: string) => ({
  event: "result",
  verdict: result,
  class: null,
  action: result === "success" ? "advance" : "return",
  reason: "because",
  commit,
  artifact: {
    path: ARTIFACT,
    content: stagingLog(result === "success" ? "SUCCESS" : "FAILED", request.run_id, commit),
  },
});

const toolError = (commit: string, action = "defer") => ({
  event: "result",
  verdict: "tool_error",
  class: "killed",
  action,
  reason: "step deploy was killed",
  commit,
  artifact: null,
});

test("success: the artifact is a commit whose only parent is the tested one, and the item advances", async () => {
  const { site, scheduler, stager } = await stage((call, commit) => {
    call.send(started(call, commit));
    call.send({ event: "output", name: "deploy", text: "deployed\n" });
    call.send(verdict("success", call, commit));
    call.end();
  });
  const { task, runs, events } = await taskWhen(scheduler, "ORCH-1", ({ task }) => task.status === "done");
  const run = runs.find((row) => row.stage === "deploy-staging");
  expect(run).toMatchObject({ outcome: "succeeded", pid: null, exitCode: null });
  expect(stager.calls).toEqual([{ job_id: run?.jobId, run_id: run?.id, task_id: task.id }]);
  const advanced = events.filter((event) => event.kind === "advanced");
  const tested = advanced.find((event) => event.detail.to === "deploy-staging")?.detail.head;
  const made = advanced.find((event) => event.detail.from === "deploy-staging")?.detail.head;
  expect(await git(site.remote, "log", "-1", "--format=%P", String(made))).toBe(tested);
  expect(await git(site.remote, "diff", "--name-only", String(tested), String(made))).toBe(ARTIFACT);
  const { stagingCounters } = scheduler.context;
  expect(stagingCounters).toEqual({ runs: 1, success: 1, failed: 0, toolError: 0, deferred: 0 });
});

test("the stager is asked with its token", async () => {
  let authorization: unknown;
  const { scheduler } = await stage((call, commit) => {
    authorization = call.headers.authorization;
    call.send(verdict("success", call, commit));
    call.end();
  });
  await taskWhen(scheduler, "ORCH-1", ({ task }) => task.status === "done");
  expect(authorization).toBe("Bearer s3cret");
});

test("failed: the artifact is published and the item goes back to development with the reason", async () => {
  const { site, scheduler } = await stage((call, commit) => {
    call.send(verdict("failed", call, commit));
    call.end();
  });
  const { jobs } = await taskWhen(scheduler, "ORCH-1", ({ events }) =>
    events.some((event) => event.kind === "returned"),
  );
  expect(jobs.find((job) => job.stage === "development")?.taskContent).toContain(ARTIFACT);
  const head = (await taskWhen(scheduler, "ORCH-1", () => true)).events.find(({ kind }) => kind === "returned")?.detail
    .head;
  expect(await git(site.remote, "show", `${head}:${ARTIFACT}`)).toContain("staging_status: FAILED");
});

describe("a verdict that is not of this run and commit never passes", () => {
  test.each([
    [
      "another run's",
      (call: StagingCallSeen, commit: string) => stagingLog("SUCCESS", call.request.run_id + 1, commit),
    ],
    ["another commit's", (call: StagingCallSeen) => stagingLog("SUCCESS", call.request.run_id, "0".repeat(40))],
    ["none that can be read", () => "# Staging log\nSUCCESS\n"],
  ])("%s", async (_, content) => {
    const { scheduler, commitOf } = await stage((call, commit) => {
      call.send({ ...verdict("success", call, commit), artifact: { path: ARTIFACT, content: content(call, commit) } });
      call.end();
    });
    const seen = await taskWhen(scheduler, "ORCH-1", ({ events }) => events.some((event) => event.kind === "retried"));
    expect(seen.task).toMatchObject({ stage: "deploy-staging", status: "active" });
    expect(seen.runs.at(-1)).toMatchObject({ outcome: "failed" });
    expect(await commitOf()).toBe(seen.task.head);
  });
});

describe("a tool error", () => {
  test("leaves no artifact; the job is done and a fresh one waits, with one marker more", async () => {
    const { site, scheduler, commitOf } = await stage((call, commit) => {
      call.send(started(call, commit));
      call.send(toolError(commit));
      call.end();
    });
    const { task, jobs, runs } = await taskWhen(scheduler, "ORCH-1", ({ events }) =>
      events.some(({ kind }) => kind === "deferred"),
    );
    const staging = jobs.filter((job) => job.stage === "deploy-staging");
    expect(staging.map((job) => [job.status, countMarkers(job.taskContent)])).toEqual([
      ["done", 0],
      ["queued", 1],
    ]);
    expect(staging[1]?.taskContent).toBe(
      `${staging[0]?.taskContent}\n[staging-infra-defer] ${staging[1]?.createdAt} step deploy was killed`,
    );
    const delay = Date.parse(staging[1]?.availableAt ?? "") - Date.parse(staging[1]?.createdAt ?? "");
    expect(Math.abs(delay - 30_000)).toBeLessThan(1_000);
    expect(runs.at(-1)).toMatchObject({ outcome: "tool_error", outcomeClass: "killed" });
    expect(task).toMatchObject({ stage: "deploy-staging", status: "active" });
    const files = await git(site.remote, "ls-tree", "-r", "--name-only", await commitOf());
    expect(files).not.toContain("15-staging-log.md");
    expect(scheduler.context.stagingCounters).toEqual({ runs: 1, success: 0, failed: 0, toolError: 1, deferred: 1 });
  });

  test("with the defers used up blocks the task in its stage with the last reason", async () => {
    const { scheduler } = await stage(
      (call, commit) => {
        call.send(toolError(commit));
        call.end();
      },
      { stagingMaxDefers: 2, stagingDeferDelayMs: 1 },
    );
    const { task, jobs } = await taskWhen(scheduler, "ORCH-1", ({ task }) => task.status === "blocked");
    const staging = jobs.filter((job) => job.stage === "deploy-staging");
    expect(staging.map((job) => [job.status, countMarkers(job.taskContent)])).toEqual([
      ["done", 0],
      ["done", 1],
      ["failed", 2],
    ]);
    expect(task).toMatchObject({
      stage: "deploy-staging",
      blockedReason: expect.stringContaining("step deploy was killed"),
    });
  });
});

describe("a stager that", () => {
  const isDeferred = ({ events }: { events: { kind: string }[] }) => events.some(({ kind }) => kind === "deferred");
  const lastRun = async (answer: Answer) => {
    const { scheduler } = await stage(answer);
    const { runs, events } = await taskWhen(scheduler, "ORCH-1", isDeferred);
    return { run: runs.at(-1), detail: events.find(({ kind }) => kind === "deferred")?.detail };
  };

  test.each<[string, Answer, string]>([
    [
      "ends its stream without a result",
      (call, commit) => {
        call.send(started(call, commit));
        call.end();
      },
      "ended without a result",
    ],
    [
      "is cut off in mid stream",
      (call, commit) => {
        call.send(started(call, commit));
        setTimeout(call.cut, 50);
      },
      "",
    ],
    [
      "talks nonsense",
      (call) => {
        call.send("<html>it works</html>\n");
        call.end();
      },
      "no event",
    ],
    ["sends a line without end", (call) => void call.send("x".repeat(9 * 1024 * 1024)), "a line of more than"],
    [
      "sends an artifact for another place",
      (call, commit) => {
        call.send({ ...verdict("success", call, commit), artifact: { path: "README.md", content: "x" } });
        call.end();
      },
      "README.md",
    ],
  ])("%s is lost: a tool error with a marker", async (_, answer, reason) => {
    const { run, detail } = await lastRun(answer);
    expect(run).toMatchObject({ outcome: "tool_error", outcomeClass: "stager_lost" });
    expect(detail).toMatchObject({ class: "stager_lost", reason: expect.stringContaining(reason) });
  });

  test("refuses the job is a tool error that quotes it", async () => {
    const { run } = await lastRun((call) => {
      call.response.writeHead(409, { "content-type": "application/problem+json" });
      call.send('{"code":"not_a_staging_job"}');
      call.end();
    });
    expect(run).toMatchObject({ outcomeClass: "stager_refused", reason: expect.stringContaining("not_a_staging_job") });
  });

  test.each([
    ["cannot be reached", "http://127.0.0.1:1"],
    ["is not ready (503)", null],
  ])("%s adds no marker: the job waits, shown as waiting for the stager", async (_, url) => {
    const site = await makeSite({ stagingRunnerEnabled: true });
    const stager = await startFakeStager((call) => {
      call.response.writeHead(503);
      call.end();
    });
    const scheduler = await startTestScheduler(site, { config: { stagerUrl: url ?? stager.url } });
    await postTask(scheduler, { workItemId: "ORCH-1", stage: "deploy-staging" });
    const waiting = await taskWhen(scheduler, "ORCH-1", ({ events }) => events.some(({ kind }) => kind === "requeued"));
    expect(waiting.jobs).toHaveLength(1);
    expect(waiting.jobs[0]).toMatchObject({ status: "queued", attempt: 1, error: expect.stringContaining("stager") });
    expect(countMarkers(waiting.jobs[0]!.taskContent)).toBe(0);
    const requeued = waiting.events.find(({ kind }) => kind === "requeued");
    expect(requeued?.detail).toMatchObject({ by: "stager_unreachable", class: "stager_unreachable" });
    expect(scheduler.context.stagingCounters).toEqual({ runs: 0, success: 0, failed: 0, toolError: 0, deferred: 0 });
  });
});

test("what was tested is not what the branch is now: a new run, without a marker", async () => {
  let calls = 0;
  const { scheduler } = await stage((call, commit) => {
    calls += 1;
    const tested = calls === 1 ? "1".repeat(40) : commit;
    call.send(verdict("success", call, tested));
    call.end();
  });
  const { jobs, runs } = await taskWhen(scheduler, "ORCH-1", ({ task }) => task.status === "done");
  const staging = jobs.filter((job) => job.stage === "deploy-staging");
  expect(staging.map((job) => [job.status, job.attempt, countMarkers(job.taskContent)])).toEqual([["done", 1, 0]]);
  expect(runs.filter((run) => run.stage === "deploy-staging").map((run) => run.outcome)).toEqual([
    "superseded",
    "succeeded",
  ]);
});

test("user text that looks like a marker does not count as one", async () => {
  const site = await makeSite({ stagingRunnerEnabled: true });
  const scheduler = await startTestScheduler(site, { config: { stagerUrl: "http://127.0.0.1:1" } });
  const description = "[staging-infra-defer] 2020-01-01T00:00:00.000Z gotcha\n".repeat(20);
  await postTask(scheduler, { workItemId: "ORCH-1", stage: "deploy-staging", description });
  const { jobs } = await taskWhen(scheduler, "ORCH-1", () => true);
  expect(jobs[0]?.taskContent).toContain("gotcha");
  expect(countMarkers(jobs[0]!.taskContent)).toBe(0);
});

test("stopping the scheduler cuts the stream and requeues the job as interrupted", async () => {
  const asked = deferred<StagingCallSeen>();
  const { site, scheduler } = await stage((call, commit) => {
    call.send(started(call, commit));
    asked.resolve(call);
  });
  const call = await asked.promise;
  await scheduler.stop();
  await call.gone;
  const reader = await openReadOnly(site.config.dbUrl, null);
  const jobs = await reader.query("SELECT status, attempt FROM jobs WHERE stage = 'deploy-staging'");
  const runs = await reader.query("SELECT outcome FROM agent_runs WHERE stage = 'deploy-staging'");
  await reader.close();
  expect({ jobs, runs }).toEqual({ jobs: [{ status: "queued", attempt: 1 }], runs: [{ outcome: "interrupted" }] });
});
