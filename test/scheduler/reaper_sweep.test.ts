import { spawn } from "node:child_process";
import { isAlive, readProcess } from "@orchestrator/shared/process/proc_table.ts";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { deferred } from "../helpers/deferred.ts";
import { FakeClock } from "../helpers/fake_clock.ts";
import { startFakeStager } from "../helpers/fake_stager.ts";
import { insertLostJob } from "../helpers/insert.ts";
import { onlyStages } from "../helpers/on_the_way.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../helpers/scheduler.ts";
import { keepLog } from "./faults/kept_log.ts";

/** Two jobs that nobody works on; the settle of the first one's run breaks off while `broken.is`. */
const withLostJobs = async () => {
  const site = await makeSite({ reaperGraceMs: 0 });
  const { log, said } = keepLog();
  const broken = { is: true };
  const fencedOff: Error[] = [];
  const scheduler = await startTestScheduler(site, {
    log,
    onFencedOff: (error) => void fencedOff.push(error),
    points: {
      reach: async (name, key) => {
        if (broken.is && name === "settle.before" && key === 77) throw new Error("a fault that nobody foresaw");
      },
    },
  });
  const { storage } = scheduler.context;
  await insertLostJob(storage, { workItemId: "ORCH-7" }, { runId: 77 });
  await insertLostJob(storage, { workItemId: "ORCH-8" }, { runId: 78 });
  const statusOf = async () => {
    const rows = await storage.query<{ status: string }>("SELECT status FROM jobs ORDER BY id");
    return rows.map(({ status }) => status);
  };
  return { site, scheduler, broken, said, statusOf, fencedOff };
};

/** A process that an agent of a run left; it is killed when the test has finished. */
const startOrphan = (instanceId: string, runId: number) => {
  const env = { ORCH_INSTANCE_ID: instanceId, ORCH_RUN_ID: String(runId), ORCH_AGENT: "analyst" };
  const child = spawn("/bin/sleep", ["300"], { env, stdio: "ignore" });
  onTestFinished(() => void child.kill("SIGKILL"));
  const pid = child.pid!;
  const { started } = readProcess(pid)!;
  return { isAlive: () => isAlive(pid, started) };
};

test("a job that cannot be judged hides nothing: the next one is reaped, and what nobody wants is ended", async () => {
  const { site, scheduler, broken, said, statusOf } = await withLostJobs();
  const { storage, instanceId, activeRuns, liveness, reaperCounters } = scheduler.context;
  await site.hook("analysis", "while :; do sleep 0.02; done\n");
  await postTask(scheduler, { workItemId: "ORCH-9" });
  await taskWhen(scheduler, "ORCH-9", ({ runs }) => (runs[0]?.pid ?? null) !== null);
  const unwanted = activeRuns.all()[0]!.claim;
  await storage.write(async (tx) => {
    await tx.run("UPDATE jobs SET status = 'cancelled' WHERE id = ?", [unwanted.job.id]);
    await tx.run("UPDATE tasks SET status = 'cancelled', lease_run_id = NULL WHERE id = ?", [unwanted.task.id]);
    tx.jobMoved("running", "cancelled");
  });
  liveness.mark(4711, { runId: 4711, stage: "analysis", abort: new AbortController() });
  const orphan = startOrphan(instanceId, 999);

  await scheduler.reaper.sweep();
  await scheduler.reaper.sweep();
  expect(await statusOf()).toEqual(["running", "queued", "cancelled"]);
  await activeRuns.whenIdle();
  expect(liveness.snapshot()).toEqual({});
  expect(orphan.isAlive()).toBe(false);
  expect(reaperCounters).toMatchObject({ sweeps: 2, errors: 1, reapedRequeued: 1, leakedMarks: 1 });
  expect(said("a step of a reaper sweep failed")).toMatchObject([
    { level: "error", step: "judge", job_id: 1, run_id: 77, err: { message: "a fault that nobody foresaw" } },
  ]);

  broken.is = false;
  await scheduler.reaper.sweep();
  // It had been without an owner for the grace already, and does not wait for it once more.
  expect(await statusOf()).toEqual(["queued", "queued", "cancelled"]);
  expect(reaperCounters).toMatchObject({ sweeps: 3, errors: 1, reapedRequeued: 2 });
});

test("a step that fails is counted and logged, and the steps after it are done", async () => {
  const { scheduler, broken, said, statusOf } = await withLostJobs();
  const { instanceId, liveness, activeRuns, reaperCounters } = scheduler.context;
  broken.is = false;
  const orphan = startOrphan(instanceId, 999);
  const breaksOff = () => {
    throw new Error("a fault that nobody foresaw");
  };
  vi.spyOn(activeRuns, "all").mockImplementationOnce(breaksOff);
  vi.spyOn(liveness, "jobIds").mockImplementationOnce(breaksOff);

  await scheduler.reaper.sweep();
  expect(orphan.isAlive()).toBe(false);
  expect(reaperCounters).toMatchObject({ sweeps: 1, errors: 2 });
  expect(said("a step of a reaper sweep failed").map(({ step }) => step)).toEqual(["unwanted runs", "leaked marks"]);
  await scheduler.reaper.sweep();
  expect(await statusOf()).toEqual(["queued", "queued"]);
  expect(reaperCounters).toMatchObject({ sweeps: 2, errors: 2, reapedRequeued: 2 });
});

test("one that has been fenced off ends its sweep there: what else it saw is another scheduler's to judge", async () => {
  const { scheduler, broken, statusOf, fencedOff } = await withLostJobs();
  const { storage, instanceId, reaperCounters } = scheduler.context;
  broken.is = false;
  await scheduler.reaper.sweep();
  await storage.write(async (tx) => void (await tx.run("UPDATE scheduler_lease SET epoch = epoch + 1")));
  const another = startOrphan(instanceId, 999);
  await scheduler.reaper.sweep();
  // The dispatcher may have found it as well.
  expect(fencedOff[0]).toMatchObject({ name: "FencedOffError" });
  expect(another.isAlive()).toBe(true);
  expect(await statusOf()).toEqual(["running", "running"]);
  expect(reaperCounters).toMatchObject({ sweeps: 2, errors: 1, orphansKilled: 0 });
});

describe("what an agent is given bounds no run of the staging runner's, whose stream", () => {
  test.each([
    ["stalls after ORCH_STALL_TIMEOUT_MS", "default", { stallTimeoutMs: 30_000 }, "stalled"],
    ["times out after ORCH_JOB_TIMEOUT_MS", "default", { jobTimeoutMs: 30_000 }, "timed_out"],
    ["times out after ORCH_JOB_TIMEOUT_MS", "deployer", { jobTimeoutMs: 30_000 }, "timed_out"],
  ])("%s, not after what agents.%s says", async (_, name, limits, outcome) => {
    const site = await makeSite({ stagingRunnerEnabled: true, ...limits });
    const asked = deferred();
    const stager = await startFakeStager(() => asked.resolve());
    const agents = { [name]: { ...site.config.agents.default!, timeoutMs: 1_000, stallTimeoutMs: 1_000 } };
    const clock = new FakeClock();
    const config = { stagerUrl: stager.url, agents, ...onlyStages(site, "deploy-staging") };
    const scheduler = await startTestScheduler(site, { clock, config });
    await postTask(scheduler, { workItemId: "ORCH-1", stage: "deploy-staging" });
    await asked.promise;
    clock.advance(30_000);
    await scheduler.reaper.sweep();
    expect(scheduler.context.activeRuns.all().map(({ endReason }) => endReason)).toEqual([null]);
    clock.advance(1);
    await scheduler.reaper.sweep();
    const { runs } = await taskWhen(scheduler, "ORCH-1", ({ runs }) => runs[0]!.outcome !== null);
    expect(runs[0]).toMatchObject({ outcome });
  });
});

test.each([
  ["of the staging runner's has failed: nobody can tell how far it came", "deployer", true, "failed", 2],
  ["of an agent in its place has failed at nothing", "deployer", false, "interrupted", 1],
  ["of another agent has failed at nothing", "tester", true, "interrupted", 1],
])("lost without a process, a deploy-staging run %s", async (_, agent, stagingRunnerEnabled, outcome, attempt) => {
  const site = await makeSite({ reaperGraceMs: 0, stagingRunnerEnabled });
  const scheduler = await startTestScheduler(site);
  const { storage } = scheduler.context;
  await scheduler.stopClaiming();
  await insertLostJob(storage, { workItemId: "ORCH-7", stage: "deploy-staging" }, { runId: 77 });
  await storage.write(async (tx) => {
    await tx.run("UPDATE jobs SET agent = ?", [agent]);
    await tx.run("UPDATE agent_runs SET agent = ?, pid = NULL, pid_started = NULL", [agent]);
  });
  await scheduler.reaper.sweep();
  await scheduler.reaper.sweep();
  expect(await storage.query("SELECT outcome, outcome_class FROM agent_runs")).toEqual([
    { outcome, outcomeClass: "lost" },
  ]);
  expect(await storage.query("SELECT status, attempt FROM jobs")).toEqual([{ status: "queued", attempt }]);
});
