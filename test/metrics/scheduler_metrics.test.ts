import { DEFAULT_PIPELINE } from "@orchestrator/shared/pipeline.ts";
import { describe, expect, test } from "vitest";
import type { RunResult } from "../../services/scheduler/run_result.ts";
import { FakeClock } from "../helpers/fake_clock.ts";
import { insertTaskWithJob } from "../helpers/insert.ts";
import { makeSite, startTestScheduler } from "../helpers/scheduler.ts";
import { openTestStorage } from "../helpers/storage.ts";
import { openSite, PASSED, type Site } from "../scheduler/api/site.ts";
import { movedSeries, promtoolFindings, seriesOf } from "./prometheus.ts";

const textOf = (site: Pick<Site, "api">): Promise<string> => site.api.queueText();

const FAILED: RunResult = {
  kind: "ended",
  outcome: "failed",
  class: null,
  reason: "exit code 1",
  runsAgentAgain: true,
};
const CHANGES: RunResult = {
  ...{ kind: "turned_down", head: "c0ffee", class: "gate_failed" },
  ...{ to: "development", reason: "changes were requested" },
};

describe("a scheduler that has done nothing yet", () => {
  test("shows every metric of the contract, by name, type and labels", async () => {
    const text = await textOf(await openSite());
    const types = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => `${name} ${type}`);
    expect(types).toEqual(
      expect.arrayContaining([
        "orchestrator_jobs gauge",
        "orchestrator_jobs_oldest_queued_seconds gauge",
        "orchestrator_tasks gauge",
        "orchestrator_stage_transitions_total counter",
        "orchestrator_runs_total counter",
        "orchestrator_run_duration_seconds histogram",
        "orchestrator_finalize_duration_seconds histogram",
        "orchestrator_job_pickup_seconds histogram",
        "orchestrator_finalizers gauge",
        "orchestrator_finalizer_oldest_seconds gauge",
        "orchestrator_reaper_sweeps_total counter",
        "orchestrator_reaper_actions_total counter",
        "orchestrator_settle_superseded_total counter",
        "orchestrator_paused gauge",
        "orchestrator_scheduler_epoch gauge",
        "staging_runner_runs_total counter",
        "staging_runner_outcomes_total counter",
        "process_cpu_seconds_total counter",
        "process_resident_memory_bytes gauge",
        "process_start_time_seconds gauge",
        "process_open_fds gauge",
      ]),
    );
  });

  test("has the series that there will be, at 0", async () => {
    const series = seriesOf(await textOf(await openSite()));
    const zero = [
      ...["queued", "running", "done", "failed", "cancelled"].map((status) => `orchestrator_jobs{status="${status}"}`),
      'orchestrator_tasks{stage="analysis",status="active"}',
      'orchestrator_tasks{stage="done",status="done"}',
      'orchestrator_stage_transitions_total{from="analysis",to="architecture"}',
      'orchestrator_stage_transitions_total{from="review",to="development"}',
      'orchestrator_stage_transitions_total{from="deploy",to="done"}',
      'orchestrator_runs_total{agent="analyst",stage="analysis",outcome="succeeded"}',
      'orchestrator_runs_total{agent="deployer",stage="deploy-staging",outcome="tool_error"}',
      "orchestrator_run_duration_seconds_count",
      "orchestrator_finalize_duration_seconds_sum",
      'orchestrator_job_pickup_seconds_bucket{le="+Inf"}',
      "orchestrator_jobs_oldest_queued_seconds",
      "orchestrator_finalizers",
      "orchestrator_finalizer_oldest_seconds",
      "orchestrator_reaper_sweeps_total",
      ...[
        ...["skipped_live_finalizer", "finalizer_expired", "reaped_requeued", "reaped_failed", "orphans_killed"],
        "leaked_marks",
      ].map((action) => `orchestrator_reaper_actions_total{action="${action}"}`),
      "orchestrator_settle_superseded_total",
      ...["all", "staging", "agent:developer", "repo:shop"].map((what) => `orchestrator_paused{what="${what}"}`),
      "staging_runner_runs_total",
      ...["success", "failed", "tool_error", "deferred"].map(
        (outcome) => `staging_runner_outcomes_total{outcome="${outcome}"}`,
      ),
    ];
    expect(zero.filter((name) => series[name] !== 0)).toEqual([]);
    expect(series["orchestrator_scheduler_epoch"]).toBe(1);
  });

  test("pleases promtool", async () => {
    expect(await promtoolFindings(await textOf(await openSite()))).toBe("");
  });
});

test("promtool would say what is wrong", async () => {
  expect(await promtoolFindings("# HELP a_total x\n# TYPE a_total gauge\na_total 1\n")).toContain("a_total");
  expect(await promtoolFindings("a{ 1\n")).toContain("promtool ended with");
});

test("a job's life is counted as it is recorded, and timed on the right clocks", async () => {
  const clock = new FakeClock();
  const site = await openSite({ clock });
  await site.create("ORCH-1");
  clock.advance(3000);
  const { run } = await site.claim();
  clock.advance(40_000);
  run.executing({ kind: "stream" });
  // Somebody sets the clock back: no duration may come of that.
  clock.setWall(clock.now() - 3_600_000);
  clock.advance(60_000);
  run.finalizing();
  clock.advance(2000);
  expect(movedSeries(await textOf(site), "orchestrator_runs_total", "orchestrator_run_duration")).toEqual({});
  await site.settle(run, PASSED);

  const text = await textOf(site);
  expect(movedSeries(text, "orchestrator_runs_total", "orchestrator_stage_transitions_total")).toEqual({
    'orchestrator_runs_total{agent="analyst",stage="analysis",outcome="succeeded"}': 1,
    'orchestrator_stage_transitions_total{from="analysis",to="architecture"}': 1,
  });
  const series = seriesOf(text);
  expect(series).toMatchObject({
    orchestrator_run_duration_seconds_sum: 102,
    orchestrator_run_duration_seconds_count: 1,
    'orchestrator_run_duration_seconds_bucket{le="60"}': 0,
    'orchestrator_run_duration_seconds_bucket{le="120"}': 1,
    orchestrator_finalize_duration_seconds_sum: 2,
    orchestrator_finalize_duration_seconds_count: 1,
    orchestrator_job_pickup_seconds_sum: 3,
    orchestrator_job_pickup_seconds_count: 1,
    'orchestrator_jobs{status="queued"}': 1,
    'orchestrator_jobs{status="done"}': 1,
    'orchestrator_tasks{stage="architecture",status="active"}': 1,
    'orchestrator_tasks{stage="analysis",status="active"}': 0,
  });
  expect(await promtoolFindings(text)).toBe("");
});

test("each way in which a run ends is counted once", async () => {
  const site = await openSite();
  const { id } = await site.create("ORCH-1", { stage: "review", priority: 5 });
  const first = await site.claim();
  await site.settle(first.run, FAILED);
  // The same again, as after an answer that was lost.
  await site.settle(first.run, FAILED);
  await site.storage.write((tx) => tx.run("UPDATE jobs SET available_at = ?", [tx.now]));
  const second = await site.claim();
  await site.settle(second.run, CHANGES);
  await site.claim();
  await site.post(`/tasks/${id}/cancel`);
  expect(movedSeries(await textOf(site), "orchestrator_runs_total", "orchestrator_stage_transitions_total")).toEqual({
    'orchestrator_runs_total{agent="reviewer",stage="review",outcome="failed"}': 2,
    'orchestrator_runs_total{agent="developer",stage="development",outcome="cancelled"}': 1,
    'orchestrator_stage_transitions_total{from="review",to="development"}': 1,
  });
});

test("what is undone is not counted", async () => {
  const site = await openSite();
  const { task } = await insertTaskWithJob(site.storage, { workItemId: "ORCH-1" });
  const { run } = await site.claim();
  const before = await textOf(site);
  const undone = site.storage.write(async (tx) => {
    tx.runBegun({ runId: 1, taskId: task.id, agent: "analyst", stage: "analysis", repo: "shop", dueForMs: 5 });
    tx.runEnded({
      runId: run.claim.run.id,
      jobId: 1,
      agent: "analyst",
      stage: "analysis",
      outcome: "succeeded",
      class: null,
      reason: null,
    });
    await tx.event("advanced", { taskId: task.id }, { from: "analysis", to: "architecture" });
    throw new Error("no");
  });
  await expect(undone).rejects.toThrow("no");
  const own = ["orchestrator_runs", "orchestrator_stage", "orchestrator_job_pickup"];
  expect(movedSeries(await textOf(site), ...own)).toEqual(movedSeries(before, ...own));
});

test("finalizers at work, pauses, the reaper and staging show what they are now", async () => {
  const clock = new FakeClock();
  const site = await openSite({ clock });
  const { liveness, reaperCounters, stagingCounters } = site.context;
  const abort = new AbortController();
  liveness.mark(1, { runId: 1, stage: "review", abort });
  clock.advance(5000);
  liveness.mark(2, { runId: 2, stage: "review", abort });
  clock.advance(2500);
  Object.assign(reaperCounters, { sweeps: 4, skippedLiveFinalizer: 3, errors: 1, settleSuperseded: 2 });
  Object.assign(reaperCounters, { lastSweepAt: "2026-01-01T00:00:10.000Z", lastSweepMs: 12 });
  Object.assign(stagingCounters, { runs: 3, success: 1, toolError: 2, deferred: 2 });
  await site.create("ORCH-1");
  clock.advance(7000);
  await site.post("/queue/pause", { agent: "analyst" });
  const text = await textOf(site);
  expect(seriesOf(text)).toMatchObject({
    orchestrator_finalizers: 2,
    orchestrator_finalizer_oldest_seconds: 14.5,
    orchestrator_jobs_oldest_queued_seconds: 7,
    orchestrator_reaper_sweeps_total: 4,
    orchestrator_reaper_errors_total: 1,
    'orchestrator_reaper_actions_total{action="skipped_live_finalizer"}': 3,
    orchestrator_reaper_last_sweep_timestamp_seconds: Date.parse("2026-01-01T00:00:10Z") / 1000,
    orchestrator_reaper_last_sweep_duration_seconds: 0.012,
    orchestrator_settle_superseded_total: 2,
    'orchestrator_paused{what="agent:analyst"}': 1,
    'orchestrator_paused{what="all"}': 0,
    staging_runner_runs_total: 3,
    'staging_runner_outcomes_total{outcome="success"}': 1,
    'staging_runner_outcomes_total{outcome="tool_error"}': 2,
    'staging_runner_outcomes_total{outcome="deferred"}': 2,
  });
  expect(await promtoolFindings(text)).toBe("");

  await site.post("/queue/resume");
  liveness.clear(1, 1);
  liveness.clear(2, 2);
  expect(seriesOf(await textOf(site))).toMatchObject({
    'orchestrator_paused{what="agent:analyst"}': 0,
    orchestrator_finalizers: 0,
    orchestrator_finalizer_oldest_seconds: 0,
  });
});

test("after a restart jobs, tasks and pauses are what they were; counters begin at 0", async () => {
  const { storage, path } = await openTestStorage();
  await storage.close();
  const first = await openSite({ path });
  await first.createDone("ORCH-1");
  await first.createBlocked("ORCH-2");
  await first.create("ORCH-3");
  await first.post("/queue/pause", { repo: "shop" });
  const before = await textOf(first);
  await first.storage.close();

  const after = await textOf(await openSite({ path }));
  const standing = ["orchestrator_jobs{", "orchestrator_tasks", "orchestrator_paused"];
  expect(movedSeries(after, ...standing)).toEqual(movedSeries(before, ...standing));
  expect(Object.keys(movedSeries(before, ...standing))).toContain('orchestrator_tasks{stage="done",status="done"}');
  const counted = ["orchestrator_runs_total", "orchestrator_stage_transitions_total", "orchestrator_job_pickup"];
  expect(Object.keys(movedSeries(before, ...counted))).not.toEqual([]);
  expect(movedSeries(after, ...counted)).toEqual({});
  expect(seriesOf(after)["orchestrator_scheduler_epoch"]).toBe(seriesOf(before)["orchestrator_scheduler_epoch"]! + 1);
});

test("what a start takes back from an earlier process is counted", async () => {
  const site = await makeSite();
  const first = await startTestScheduler(site);
  await first.stop();
  const path = site.config.dbUrl.slice("file:".length);
  const { storage } = await openTestStorage({ path });
  const { job, task } = await insertTaskWithJob(storage, { workItemId: "ORCH-1" });
  await storage.write(async (tx) => {
    const id = await tx.insert(
      "INSERT INTO agent_runs (job_id, task_id, stage, agent, attempt, started_at) VALUES (?, ?, 'analysis', 'analyst', 1, ?)",
      [job.id, task.id, tx.now],
    );
    await tx.run("UPDATE jobs SET status = 'running', run_id = ?, available_at = '2999-01-01' WHERE id = ?", [
      id,
      job.id,
    ]);
    await tx.run("UPDATE tasks SET lease_run_id = ? WHERE id = ?", [id, task.id]);
    await tx.run("INSERT INTO queue_state VALUES ('all', 'x', ?)", [tx.now]);
  });
  await storage.close();
  const second = await startTestScheduler(site);
  const text = await second.api.queueText();
  expect(movedSeries(text, "orchestrator_runs_total", "orchestrator_run_duration")).toEqual({
    'orchestrator_runs_total{agent="analyst",stage="analysis",outcome="interrupted"}': 1,
  });
});

test("the text says nothing that only a holder of the token may read", async () => {
  const site = await openSite();
  await site.create("SECRET-ITEM", { title: "A hidden title", description: "hidden words", branch: "hidden/branch" });
  await site.post("/queue/pause", { agent: "developer", reason: "hidden reason" });
  await site.claim();
  const text = await textOf(site);
  expect(text.toLowerCase()).not.toMatch(/hidden|secret/);
  expect(text).toContain('orchestrator_tasks{stage="analysis",status="active"} 1');
  const json = await (await site.app.request("/queue")).text();
  expect(json).not.toMatch(/hidden title|hidden words|hidden\/branch/);
});

test("names from the configuration come through as label values, whatever is in them", async () => {
  const agent = 'a "quoted" \\ agent\n';
  const stages = DEFAULT_PIPELINE.stages.map((stage) => ({ ...stage, agent }));
  const site = await openSite({ config: { pipeline: { ...DEFAULT_PIPELINE, stages } } });
  const text = await textOf(site);
  expect(text).toContain('agent="a \\"quoted\\" \\\\ agent\\n"');
  expect(await promtoolFindings(text)).toBe("");
});
