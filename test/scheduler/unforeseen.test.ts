import { describe, expect, test } from "vitest";
import { HeldPoints } from "../helpers/held_points.ts";
import { BreakingPoints, makeDue, onlyStages } from "../helpers/on_the_way.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../helpers/scheduler.ts";
import { takeOver } from "../helpers/take_over.ts";
import { countAgents } from "./faults/count_agents.ts";
import { keepLog } from "./faults/kept_log.ts";

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";
const hasEnded = ({ runs }: { runs: { outcome: string | null }[] }) => (runs[0]?.outcome ?? null) !== null;

describe("an error that nobody foresaw is a tool error: it costs no attempt, is logged with its stack, and no agent runs twice", () => {
  test.each([
    ["fetch.before", true],
    ["launch.workspace_ready", true],
    ["exit.seen", false],
    ["collect.before", false],
    ["collect.after", false],
    ["gate.read", false],
    ["push.before", false],
    ["ref.after", false],
  ])("at %s", async (point, isBeforeAgent) => {
    const site = await makeSite();
    const agents = await countAgents(site);
    const { log, said } = keepLog();
    const points = new BreakingPoints([point]);
    const scheduler = await startTestScheduler(site, { log, points, config: onlyStages(site, "analysis") });
    const { liveness, activeRuns } = scheduler.context;
    await postTask(scheduler, { workItemId: "ORCH-1" });
    const first = await taskWhen(scheduler, "ORCH-1", hasEnded);
    expect(first.runs).toMatchObject([{ outcome: "tool_error", outcomeClass: "internal" }]);
    expect(first.runs[0]?.reason).toContain(`broken off at ${point}`);
    expect(first.runs[0]?.pid === null).toBe(isBeforeAgent);
    expect(first.jobs).toMatchObject([{ status: "queued", attempt: 1 }]);
    expect(said("nobody foresaw")[0]).toMatchObject({
      level: "error",
      run_id: first.runs[0]?.id,
      err: { stack: expect.stringContaining("on_the_way") },
    });
    await activeRuns.whenIdle();
    expect(liveness.snapshot()).toEqual({});

    await makeDue(scheduler);
    const { task, runs } = await taskWhen(scheduler, "ORCH-1", isOver);
    expect(task.status).toBe("done");
    expect(runs).toHaveLength(2);
    expect(await agents()).toBe(1);
  });
});

test.each([
  ["is not, where nothing says that its agent exited 0", "exit 3\n", { status: "blocked", stage: "deploy" }],
  ["goes on with the work of an agent that did", "", { status: "done" }],
])("a stage that is not run twice %s", async (_name, script, expected) => {
  const site = await makeSite();
  const agents = await countAgents(site, script);
  const points = new BreakingPoints(["exit.seen"]);
  const scheduler = await startTestScheduler(site, { points, config: onlyStages(site, "deploy") });
  await postTask(scheduler, { workItemId: "ORCH-1", stage: "deploy" });
  const { runs } = await taskWhen(scheduler, "ORCH-1", hasEnded);
  expect(runs).toMatchObject([{ outcome: "tool_error", outcomeClass: "internal" }]);
  await makeDue(scheduler);
  const { task } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(task).toMatchObject(expected);
  expect(await agents()).toBe(1);
});

test("a finalizer that the reaper has ended is no error of its own: what the reaper recorded stands", async () => {
  const site = await makeSite({ finalizerMaxMs: 0 });
  const { log, said } = keepLog();
  const points = new HeldPoints();
  const scheduler = await startTestScheduler(site, { log, points, config: onlyStages(site, "analysis") });
  const held = points.hold("collect.before");
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await held.arrived;
  await scheduler.reaper.sweep();
  held.release();
  await expect.poll(() => said("settled").length).toBe(1);
  const { runs, jobs } = await taskWhen(scheduler, "ORCH-1", hasEnded);
  expect(runs).toMatchObject([{ outcome: "tool_error", outcomeClass: "finalizer_expired" }]);
  expect(jobs).toMatchObject([{ status: "queued", attempt: 1 }]);
  expect(said("nobody foresaw")).toEqual([]);
  expect(said("could not be settled")).toEqual([]);
});

test("the loss of the fence is no outcome: nothing is settled any more", async () => {
  const site = await makeSite();
  const { log, said } = keepLog();
  const lost: Error[] = [];
  const scheduler = await startTestScheduler(site, {
    log,
    onFencedOff: (seen) => void lost.push(seen),
    points: {
      reach: async (name) => {
        if (name === "gate.read") await takeOver(site);
      },
    },
  });
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await expect.poll(() => lost.length, { timeout: 20_000 }).toBe(1);
  await scheduler.context.activeRuns.whenIdle();
  expect(lost).toMatchObject([{ code: "fenced_off" }]);
  expect(said("settled")).toEqual([]);
  expect(said("could not be settled")).toEqual([]);
});
