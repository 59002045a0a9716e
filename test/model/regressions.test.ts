import { expect, test } from "vitest";
import { replay } from "./replay.ts";
import type { Step } from "./step.ts";

// What has gone wrong once in some order of steps: the fewest that show it, and what is right. Every check of the model is made
// after each step as well.

const create = (item: number, stage: string): Step => ({
  ...{ do: "create", item, repo: "shop", stage, priority: 0, sharedBranch: false },
});
const claim: Step = { do: "claim" };
const start: Step = { do: "start", at: -1, adopts: false, dark: false };
const exit: Step = { do: "exit", at: -1, as: "ok" };
const settle: Step = { do: "settle", at: -1, how: "written" };
const lost: Step[] = [{ do: "sweep" }, { do: "pass", seconds: 61 }, { do: "sweep" }];
/** A launch that finds no program to start. */
const launchFails: Step[] = [{ do: "finalize", at: -1, result: "launch_error" }, settle];

test("a monitor that hears of its process's end when the job runs anew takes nobody's mark away", async () => {
  const steps: Step[] = [
    ...[create(1, "review"), claim, start],
    // Nobody tells the monitor that its process is gone; the reaper sees it.
    ...[{ do: "vanish", at: -1 } as const, ...lost],
    ...[{ do: "pass_until_due" } as const, claim, start, exit],
    // Now the first monitor is told.
    { do: "exit", at: 0, as: "ok" },
    { do: "sweep" },
  ];
  await replay(steps, async ({ world }) => {
    const { liveness, reaperCounters } = world.scheduler.context;
    expect(liveness.see(1)?.runId).toBe(2);
    expect(reaperCounters).toMatchObject({ skippedLiveFinalizer: 1, leakedMarks: 0 });
  });
});

test("what a person pauses while three tasks meet the same fault is not probed: it is theirs to end", async () => {
  const steps: Step[] = [
    ...[create(1, "review"), create(2, "review"), create(3, "review"), claim, claim, claim],
    ...[{ do: "pause", what: "agent:reviewer", reason: "a" } as const, ...launchFails, ...launchFails, ...launchFails],
    ...[{ do: "pass", seconds: 61 } as const, claim],
  ];
  await replay(steps, async ({ world }) => {
    const { storage, faults } = world.scheduler.context;
    expect(faults.nextProbeInMs()).toBeNull();
    expect(await storage.query("SELECT what, reason FROM queue_state")).toEqual([
      { what: "agent:reviewer", reason: "a" },
    ]);
    expect(storage.tally.jobs()).toMatchObject({ queued: 3, running: 0 });
  });
});

test("a probe whose monitor dies is followed by another one", async () => {
  const steps: Step[] = [
    ...[create(1, "review"), create(2, "review"), create(3, "review")],
    ...[claim, ...launchFails, claim, ...launchFails, claim, ...launchFails],
    ...[{ do: "pass", seconds: 61 } as const, claim, { do: "die", at: -1 } as const, ...lost],
    ...[{ do: "pass", seconds: 61 } as const, claim],
  ];
  await replay(steps, async ({ world, model }) => {
    expect(model.paused.has("agent:reviewer")).toBe(true);
    expect(world.scheduler.storage.tally.jobs()).toMatchObject({ queued: 2, running: 1 });
  });
});

test("a probe that is cancelled as it is claimed is followed by another one", async () => {
  const steps: Step[] = [
    ...[create(1, "review"), create(2, "review"), create(3, "review")],
    ...[claim, ...launchFails, claim, ...launchFails, claim, ...launchFails],
    { do: "pass", seconds: 61 },
    { do: "together", first: claim, second: { do: "cancel", at: 0, reason: false } },
    ...[{ do: "pass", seconds: 61 } as const, claim],
  ];
  await replay(steps, async ({ world }) => {
    const { faults, storage } = world.scheduler.context;
    expect(await storage.query("SELECT outcome FROM agent_runs WHERE id = 4")).toEqual([{ outcome: "cancelled" }]);
    expect(faults.snapshot()).toMatchObject({ underWay: [5], pauses: { "agent:reviewer": { probedBy: 5 } } });
  });
});

test("a lost run of a stage that is not run twice blocks its task, and counts as failed by the reaper", async () => {
  const steps: Step[] = [
    ...[create(1, "deploy"), { do: "approve", at: 0, wrongStage: false } as const],
    ...[claim, start, { do: "vanish", at: -1 } as const, ...lost],
  ];
  await replay(steps, async ({ world }) => {
    const { reaperCounters, storage } = world.scheduler.context;
    expect(reaperCounters).toMatchObject({ reapedFailed: 1, reapedRequeued: 0 });
    expect(await storage.query("SELECT status FROM tasks")).toEqual([{ status: "blocked" }]);
  });
});
