import { expect, test } from "vitest";
import { failNextCommit, unreachable } from "../../helpers/failing_commits.ts";
import { HeldPoints } from "../../helpers/held_points.ts";
import { onlyStages } from "../../helpers/on_the_way.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../../helpers/scheduler.ts";

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";

/** A scheduler of one stage that is held at a point with one item. */
const heldAt = async (point: string) => {
  const site = await makeSite({ reaperGraceMs: 0 });
  const points = new HeldPoints();
  const scheduler = await startTestScheduler(site, { points, config: onlyStages(site, "analysis") });
  const held = points.hold(point);
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await held.arrived;
  return { scheduler, held };
};

test.each([
  ["started", "spawn.after"],
  ["exited", "exit.seen"],
])("that an agent has %s stands once in the history, where the answer to its record was lost", async (kind, point) => {
  const { scheduler, held } = await heldAt(point);
  failNextCommit(unreachable(), { made: true });
  held.release();
  const { task, events } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(task.status).toBe("done");
  expect(events.filter((event) => event.kind === kind)).toHaveLength(1);
});

test("a claim whose answer was lost costs no attempt: its job goes back when nobody has been at work on it for the grace", async () => {
  const site = await makeSite({ reaperGraceMs: 0 });
  const points = new HeldPoints();
  const scheduler = await startTestScheduler(site, { points, config: onlyStages(site, "analysis") });
  await expect.poll(() => points.reached).toContain("claim.before");
  const held = points.hold("claim.before");
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await held.arrived;
  failNextCommit(unreachable(), { made: true });
  held.release();
  const { storage, reaperCounters } = scheduler.context;
  await expect.poll(() => storage.query("SELECT status FROM jobs")).toEqual([{ status: "running" }]);
  await scheduler.reaper.sweep();
  await scheduler.reaper.sweep();
  const { task, jobs, runs } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(task.status).toBe("done");
  expect(jobs).toMatchObject([{ status: "done", attempt: 1 }]);
  expect(runs).toMatchObject([{ outcome: "interrupted", outcomeClass: "lost" }, { outcome: "succeeded" }]);
  expect(reaperCounters).toMatchObject({ reapedRequeued: 1, reapedFailed: 0 });
});
