import { readFileSync } from "node:fs";
import { appendFile, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { exitNotePath, hasExitNote, makeExitNote, saysExited } from "../../services/scheduler/exit_notes.ts";
import { HeldPoints } from "../helpers/held_points.ts";
import { insertLostJob } from "../helpers/insert.ts";
import { onlyStages } from "../helpers/on_the_way.ts";
import { setPreReceive } from "../helpers/remote_repository.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../helpers/scheduler.ts";

/** Stops this whole process for so many milliseconds. */
const pauseAll = (ms: number): void => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";

test("a finalizer held in its push is skipped by every sweep, although its agent is long gone and the grace long over", async () => {
  const site = await makeSite({ reaperGraceMs: 1 });
  const arrived = join(site.folder, "push-arrived");
  const release = join(site.folder, "push-may-go-on");
  await setPreReceive(site.remote, `touch ${arrived}; while [ ! -e ${release} ]; do sleep 0.05; done`);
  const points = new HeldPoints();
  const scheduler = await startTestScheduler(site, { points });
  const { storage, liveness, activeRuns, reaperCounters } = scheduler.context;
  const pushing = points.hold("push.before");
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await pushing.arrived;
  pushing.release();

  const [jobId] = liveness.jobIds();
  expect(activeRuns.get(jobId!)?.phase).toBe("finalizing");
  for (let sweep = 0; sweep < 20; sweep++) await scheduler.reaper.sweep();
  expect(reaperCounters).toMatchObject({
    sweeps: 20,
    skippedLiveFinalizer: 20,
    reapedRequeued: 0,
    reapedFailed: 0,
    errors: 0,
  });
  expect(await storage.query("SELECT status FROM jobs")).toEqual([{ status: "running" }]);

  await writeFile(release, "");
  const { runs, events, task } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(task.status).toBe("done");
  const ofAnalysis = runs.filter((run) => run.stage === "analysis");
  expect(ofAnalysis.map((run) => run.outcome)).toEqual(["succeeded"]);
  expect(events.filter((event) => event.kind === "advanced" && event.detail.from === "analysis")).toHaveLength(1);
});

test("with the marks switched off the same job is reaped: the mark is what protects it", async () => {
  const site = await makeSite({ reaperGraceMs: 0, finalizerLivenessEnabled: false });
  const points = new HeldPoints();
  const scheduler = await startTestScheduler(site, { points });
  const held = points.hold("gate.read");
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await held.arrived;
  await scheduler.reaper.sweep();
  await scheduler.reaper.sweep();
  expect(scheduler.context.reaperCounters).toMatchObject({ skippedLiveFinalizer: 0, reapedRequeued: 1 });
  held.release();
  await scheduler.stop();
});

test("a monitor that dies before it has settled clears its mark; the job is reaped, and goes on without running its agent again", async () => {
  const site = await makeSite({ reaperGraceMs: 0 });
  await site.hook("analysis", `echo "$ORCH_RUN_ID" >>${join(site.folder, "agent-runs")}\n`);
  const points = new HeldPoints();
  let thrown = false;
  const scheduler = await startTestScheduler(site, {
    points: {
      reach: async (name) => {
        if (name === "settle.before" && !thrown) {
          thrown = true;
          throw new Error("a fault that nobody foresaw");
        }
        await points.reach(name);
      },
    },
  });
  const { liveness, activeRuns, storage, reaperCounters } = scheduler.context;
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await taskWhen(scheduler, "ORCH-1", ({ events }) => events.some((event) => event.kind === "exited"));
  await activeRuns.whenIdle();
  expect(liveness.snapshot()).toEqual({});
  expect(await storage.query("SELECT status FROM jobs")).toEqual([{ status: "running" }]);

  await scheduler.reaper.sweep();
  expect(await storage.query("SELECT status FROM jobs")).toEqual([{ status: "running" }]);
  await scheduler.reaper.sweep();
  expect(reaperCounters).toMatchObject({ reapedRequeued: 1, leakedMarks: 0 });
  await storage.write((tx) => tx.run("UPDATE jobs SET available_at = ? WHERE status = 'queued'", [tx.now]));
  await storage.write(async (tx) => tx.jobMoved("queued", "queued"));

  const { runs, task, events } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(task.status).toBe("done");
  const ofAnalysis = runs.filter((run) => run.stage === "analysis");
  expect(ofAnalysis.map((run) => [run.outcome, run.outcomeClass, run.pid === null])).toEqual([
    ["failed", "lost", false],
    ["succeeded", null, true],
  ]);
  expect(events.filter((event) => event.kind === "requeued").map((event) => event.detail.by)).toEqual(["reaper"]);
});

test("a hung finalizer is aborted and its job requeued under a new fence; what it still settles is fenced off and counted", async () => {
  const site = await makeSite({ finalizerMaxMs: 0 });
  const points = new HeldPoints();
  const scheduler = await startTestScheduler(site, { points });
  const { storage, reaperCounters, liveness } = scheduler.context;
  const held = points.hold("settle.before");
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await held.arrived;
  const [before] = await storage.query("SELECT status, run_id, attempt FROM jobs");
  await scheduler.reaper.sweep();

  expect(before).toMatchObject({ status: "running", attempt: 1 });
  expect(reaperCounters.finalizerExpired).toBe(1);
  expect(liveness.snapshot()).toEqual({});
  expect(await storage.query("SELECT status, run_id, attempt FROM jobs")).toEqual([
    { status: "queued", runId: null, attempt: 1 },
  ]);
  const taskBefore = await storage.query("SELECT stage, status, head, lease_run_id FROM tasks");

  held.release();
  await taskWhen(scheduler, "ORCH-1", () => true);
  await expect.poll(() => reaperCounters.settleSuperseded).toBe(1);
  expect(await storage.query("SELECT stage, status, head, lease_run_id FROM tasks")).toEqual(taskBefore);
  expect(await storage.query("SELECT outcome, outcome_class FROM agent_runs")).toEqual([
    { outcome: "tool_error", outcomeClass: "finalizer_expired" },
  ]);
  const events = await storage.query<{ kind: string; by: string }>(
    "SELECT kind, detail ->> 'by' AS by FROM task_events WHERE kind = 'requeued'",
  );
  expect(events).toEqual([{ kind: "requeued", by: "finalizer_expired" }]);
});

test("an agent that had exited 0 when its end was asked for has finished: the run goes on from there", async () => {
  const site = await makeSite();
  let asked = false;
  const scheduler = await startTestScheduler(site, {
    points: {
      reach: async (name, key) => {
        if (name !== "spawn.after" || asked) return;
        asked = true;
        // Holds up everything: the agent exits, and nobody here has seen it.
        while (!saysExited(readFileSync(exitNotePath(site.config.dataDir, 1), "utf8"))) pauseAll(5);
        const run = scheduler.context.activeRuns.get(Number(key));
        run?.end({ outcome: "timed_out", class: null, reason: "too late" });
      },
    },
  });
  await postTask(scheduler, { workItemId: "ORCH-1" });
  const { runs, task } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(asked).toBe(true);
  expect(task.status).toBe("done");
  expect(runs[0]).toMatchObject({ stage: "analysis", outcome: "succeeded", exitCode: 0, signal: null });
});

test("an agent that has exited 0 has finished, even if its keeper is killed before it can end as the agent did", async () => {
  const site = await makeSite();
  const bin = join(site.folder, "bin");
  await mkdir(bin);
  await writeFile(join(bin, "sync"), "#!/bin/sh\nkill -9 $PPID\n", { mode: 0o755 });
  const agent = site.config.agents.default!;
  const scheduler = await startTestScheduler(site, {
    config: {
      ...onlyStages(site, "analysis"),
      agents: { default: { ...agent, env: { ...agent.env, PATH: `${bin}:${process.env.PATH}` } } },
    },
  });
  await postTask(scheduler, { workItemId: "ORCH-1" });
  const { runs, task } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(task.status).toBe("done");
  expect(runs).toMatchObject([{ outcome: "succeeded", exitCode: 0, signal: null }]);
});

describe("a job that nobody works on", () => {
  const lost = async (attempt: number) => {
    const site = await makeSite({ reaperGraceMs: 5 });
    const scheduler = await startTestScheduler(site);
    const { storage } = scheduler.context;
    await insertLostJob(storage, { workItemId: "ORCH-9" }, { runId: 77, attempt });
    return { scheduler, storage, site };
  };

  const sweepPastTheGrace = async (scheduler: Awaited<ReturnType<typeof lost>>["scheduler"]) => {
    await scheduler.reaper.sweep();
    await new Promise((resolve) => setTimeout(resolve, 10));
    await scheduler.reaper.sweep();
  };

  test("is requeued when the grace is over, and not before", async () => {
    const { scheduler, storage } = await lost(1);
    await scheduler.reaper.sweep();
    expect(await storage.query("SELECT status FROM jobs")).toEqual([{ status: "running" }]);
    await sweepPastTheGrace(scheduler);
    expect(await storage.query("SELECT status, attempt, run_id FROM jobs")).toEqual([
      { status: "queued", attempt: 2, runId: null },
    ]);
    expect(scheduler.context.reaperCounters).toMatchObject({ reapedRequeued: 1, reapedFailed: 0 });
  });

  test("is requeued with its agent's exit 0 on record, where that was noted and its monitor did not live to see it", async () => {
    const { scheduler, storage, site } = await lost(1);
    const note = exitNotePath(site.config.dataDir, 77);
    await makeExitNote(note);
    await appendFile(note, "0\n");
    await sweepPastTheGrace(scheduler);
    expect(await storage.query("SELECT status FROM jobs")).toEqual([{ status: "queued" }]);
    expect(await storage.query("SELECT exit_code, signal, outcome_class FROM agent_runs")).toEqual([
      { exitCode: 0, signal: null, outcomeClass: "lost" },
    ]);
    expect(await hasExitNote(note)).toBe(false);
  });

  test("fails, and its task is blocked with a reason, when no attempt is left", async () => {
    const { scheduler, storage } = await lost(3);
    await sweepPastTheGrace(scheduler);
    expect(await storage.query("SELECT status FROM jobs")).toEqual([{ status: "failed" }]);
    const [task] = await storage.query<{ status: string; blockedReason: string }>(
      "SELECT status, blocked_reason FROM tasks",
    );
    expect(task).toMatchObject({
      status: "blocked",
      blockedReason: expect.stringContaining("nobody was at work on it"),
    });
    expect(scheduler.context.reaperCounters).toMatchObject({ reapedRequeued: 0, reapedFailed: 1 });
  });

  test("with a leaked mark on it loses the mark first, which is counted", async () => {
    const { scheduler, storage } = await lost(1);
    scheduler.context.liveness.mark(1, { runId: 77, stage: "analysis", abort: new AbortController() });
    await sweepPastTheGrace(scheduler);
    expect(scheduler.context.liveness.snapshot()).toEqual({});
    expect(scheduler.context.reaperCounters).toMatchObject({
      leakedMarks: 1,
      reapedRequeued: 1,
      skippedLiveFinalizer: 0,
    });
    expect(await storage.query("SELECT status FROM jobs")).toEqual([{ status: "queued" }]);
  });
});

test("a sweep over nothing to do writes nothing", async () => {
  const site = await makeSite();
  const scheduler = await startTestScheduler(site);
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await taskWhen(scheduler, "ORCH-1", isOver);
  const { storage, activeRuns } = scheduler.context;
  await activeRuns.whenIdle();
  let commits = 0;
  storage.onCommitted(() => {
    commits += 1;
  });
  const changes = async () => (await storage.query("PRAGMA data_version"))[0];
  const before = await changes();
  for (let sweep = 0; sweep < 3; sweep++) await scheduler.reaper.sweep();
  expect(commits).toBe(0);
  expect(await changes()).toEqual(before);
});
