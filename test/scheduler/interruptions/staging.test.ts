import { countMarkers } from "@orchestrator/shared/defer.ts";
import { describe, expect, test } from "vitest";
import { deferred } from "../../helpers/deferred.ts";
import { type StagingCallSeen, startFakeStager } from "../../helpers/fake_stager.ts";
import { git } from "../../helpers/git.ts";
import { STAGING_LOG, sendStarted, sendSuccess, startGoodStager } from "../../helpers/good_stager.ts";
import { BreakingPoints, makeDue, onlyStages, reap } from "../../helpers/on_the_way.ts";
import { makeSite, postTask, type Site, startTestScheduler, taskWhen } from "../../helpers/scheduler.ts";
import { startSchedulerProcess } from "../../helpers/scheduler_process.ts";

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";

const stagingCommits = async (site: Site): Promise<string[]> =>
  (await git(site.remote, "log", "--format=%H", "main..work/ORCH-1", "--", STAGING_LOG)).split("\n");

describe("a staging run that was tested to its end and cut short goes on at its artifact; nothing is deployed a second time", () => {
  test.each([
    [["commit.after"]],
    [["push.before"]],
    [["push.after"]],
    [["settle.before"]],
    // The run that goes on is cut short as well, before and after it has published.
    [["gate.read", "gate.read"]],
    [["push.after", "gate.read"]],
    [["push.after", "ref.after", "fetch.after"]],
  ])("broken off at %j", async (names) => {
    const site = await makeSite({ stagingRunnerEnabled: true, reaperGraceMs: 0 });
    const stager = await startGoodStager(site);
    const points = new BreakingPoints(names);
    const config = { stagerUrl: stager.url, ...onlyStages(site, "deploy-staging") };
    const scheduler = await startTestScheduler(site, { points, config });
    await postTask(scheduler, { workItemId: "ORCH-1", stage: "deploy-staging" });
    for (let n = 1; n <= names.length; n++) {
      await expect.poll(() => points.broken.length, { timeout: 20_000 }).toBe(n);
      await reap(scheduler);
      // How often a run may be lost is not what this is about.
      await scheduler.context.storage.write((tx) => tx.run("UPDATE jobs SET attempt = 1 WHERE status = 'queued'"));
      await makeDue(scheduler);
    }
    const { task, jobs, runs } = await taskWhen(scheduler, "ORCH-1", isOver);
    expect(task).toMatchObject({ status: "done", blockedReason: null });
    expect(stager.tested).toHaveLength(1);
    const brokenOff = names.map((name) => (name === "settle.before" ? "failed" : "tool_error"));
    expect(runs.map((run) => run.outcome)).toEqual([...brokenOff, "succeeded"]);
    expect(jobs.map((job) => countMarkers(job.taskContent))).toEqual([0]);
    expect(await stagingCommits(site)).toEqual([task.head]);
  });

  test("killed between the push and the settle", async () => {
    const site = await makeSite({ stagingRunnerEnabled: true });
    const stager = await startGoodStager(site);
    const env = { ORCH_STAGER_URL: stager.url };
    const first = await startSchedulerProcess(site, { ...env, ORCH_FAULT_POINT: "push.after" });
    const url = await first.ready;
    const body = JSON.stringify({ work_item_id: "ORCH-1", title: "t", repo: "shop", stage: "deploy-staging" });
    await fetch(`${url}/tasks`, { method: "POST", headers: { "content-type": "application/json" }, body });
    expect(await first.exited).toMatchObject({ signal: "SIGKILL" });
    const second = await startTestScheduler(site, { config: { stagerUrl: stager.url } });
    const { runs, task } = await taskWhen(second, "ORCH-1", isOver);
    expect(task.status).toBe("done");
    expect(stager.tested).toHaveLength(1);
    expect(runs.filter((run) => run.stage === "deploy-staging").map((run) => run.outcome)).toEqual([
      "interrupted",
      "succeeded",
    ]);
    expect(await stagingCommits(site)).toHaveLength(1);
  });
});

test("a stager whose verdict is always of another commit is asked again later and later, and in the end a person is", async () => {
  const site = await makeSite({ stagingRunnerEnabled: true });
  const stager = await startFakeStager((call) => {
    sendSuccess(call, "1".repeat(40));
    call.end();
  });
  const config = { stagerUrl: stager.url, ...onlyStages(site, "deploy-staging") };
  const scheduler = await startTestScheduler(site, { config });
  await postTask(scheduler, { workItemId: "ORCH-1", stage: "deploy-staging" });
  for (let n = 2; n < 10; n++) {
    await taskWhen(scheduler, "ORCH-1", ({ runs }) => runs.filter((run) => run.outcome !== null).length === n);
    await makeDue(scheduler);
  }
  const { task, events, runs } = await taskWhen(scheduler, "ORCH-1", isOver);
  const delays = events
    .filter(({ kind }) => kind === "requeued")
    .map(({ at, detail }) => Math.round((Date.parse(String(detail.available_at)) - Date.parse(at)) / 1000));
  expect(delays).toEqual([0, 10, 20, 40, 80, 160, 300, 300, 300]);
  expect(task).toMatchObject({ status: "blocked", blockedReason: expect.stringContaining("moved under 10 runs") });
  expect(new Set(runs.map((run) => run.outcomeClass))).toEqual(new Set(["branch_moved"]));
});

describe("the staging counters add up when nothing is in flight", () => {
  const begin = async () => {
    const site = await makeSite({ stagingRunnerEnabled: true });
    const asked = deferred<StagingCallSeen>();
    const stager = await startFakeStager((call) => {
      sendStarted(call, "1".repeat(40));
      asked.resolve(call);
    });
    const scheduler = await startTestScheduler(site, { config: { stagerUrl: stager.url } });
    await postTask(scheduler, { workItemId: "ORCH-1", stage: "deploy-staging" });
    const call = await asked.promise;
    await expect.poll(() => scheduler.context.stagingCounters.runs, { timeout: 20_000 }).toBe(1);
    return { scheduler, call };
  };

  test("after a cancel in the midst of a run", async () => {
    const { scheduler, call } = await begin();
    await scheduler.api.cancelTask({ workItemId: "ORCH-1" }, {});
    await call.gone;
    await scheduler.context.activeRuns.whenIdle();
    const { staging_runner: figures } = await scheduler.api.queueView();
    expect(figures).toEqual({ runs: 1, success: 0, failed: 0, tool_error: 1, deferred: 0 });
  });

  test("after a stop in the midst of a run", async () => {
    const { scheduler, call } = await begin();
    await scheduler.stop();
    await call.gone;
    expect(scheduler.context.stagingCounters).toEqual({ runs: 1, success: 0, failed: 0, toolError: 1, deferred: 0 });
  });
});
