import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { countMarkers } from "@orchestrator/shared/defer.ts";
import type { Points } from "@orchestrator/shared/points.ts";
import { describe, expect, test } from "vitest";
import { git } from "../../helpers/git.ts";
import { startGoodStager } from "../../helpers/good_stager.ts";
import { HeldPoints } from "../../helpers/held_points.ts";
import { BreakingPoints, makeDue, onlyStages, reap } from "../../helpers/on_the_way.ts";
import { makeSite, postTask, type Site, startTestScheduler, taskWhen } from "../../helpers/scheduler.ts";
import { countAgents } from "../faults/count_agents.ts";

const BRANCH = "refs/heads/work/ORCH-1";

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";

/** Has somebody else push to the item's branch. @returns what they pushed. */
const pushForeign = async (site: Site): Promise<string> => {
  const seed = join(site.folder, "seed");
  await writeFile(join(seed, "other.txt"), "theirs\n");
  await git(seed, "add", "-A");
  await git(seed, "commit", "-q", "-m", "somebody else's");
  await git(seed, "push", "-q", site.remote, `HEAD:${BRANCH}`);
  return git(seed, "rev-parse", "HEAD");
};

describe("work that was finished when somebody else's commit stood on the branch is taken once that is off it: its agent is not run again", () => {
  test("met by the run that goes on with the work", async () => {
    const site = await makeSite({ reaperGraceMs: 0 });
    const agents = await countAgents(site);
    const points = new BreakingPoints(["collect.after"]);
    const scheduler = await startTestScheduler(site, { points, config: onlyStages(site, "analysis") });
    await postTask(scheduler, { workItemId: "ORCH-1" });
    await expect.poll(() => points.broken, { timeout: 20_000 }).toEqual(["collect.after"]);
    await pushForeign(site);
    await reap(scheduler);
    await makeDue(scheduler);
    expect((await taskWhen(scheduler, "ORCH-1", isOver)).task.status).toBe("blocked");

    await git(site.remote, "update-ref", "-d", BRANCH);
    await scheduler.api.retryTask({ workItemId: "ORCH-1" }, {});
    const { task, runs } = await taskWhen(scheduler, "ORCH-1", isOver);
    expect(task).toMatchObject({ status: "done", blockedReason: null });
    expect(runs[1]).toMatchObject({ outcome: "failed", outcomeClass: "foreign_commit", pid: null });
    expect(runs[2]).toMatchObject({ outcome: "succeeded", pid: null });
    expect(await agents()).toBe(1);
  });

  test("met by the push of the work", async () => {
    const site = await makeSite();
    const agents = await countAgents(site);
    const points = new HeldPoints();
    const pushing = points.hold("push.before");
    const scheduler = await startTestScheduler(site, { points, config: onlyStages(site, "analysis") });
    await postTask(scheduler, { workItemId: "ORCH-1" });
    await pushing.arrived;
    const theirs = await pushForeign(site);
    pushing.release();
    const blocked = await taskWhen(scheduler, "ORCH-1", isOver);
    expect(blocked.task).toMatchObject({
      status: "blocked",
      blockedReason: expect.stringContaining(theirs.slice(0, 12)),
    });
    expect(blocked.runs).toMatchObject([{ outcome: "failed", outcomeClass: "foreign_commit", exitCode: 0 }]);

    await git(site.remote, "update-ref", "-d", BRANCH);
    await scheduler.api.retryTask({ workItemId: "ORCH-1" }, {});
    const { task, runs } = await taskWhen(scheduler, "ORCH-1", isOver);
    expect(task.status).toBe("done");
    expect(runs[1]).toMatchObject({ outcome: "succeeded", pid: null });
    expect(await agents()).toBe(1);
    expect(await git(site.remote, "rev-parse", BRANCH)).toBe(task.head);
  });
});

test("a commit that carries the number of a run which has failed is nobody's work of this task: it blocks the task and is not gone on from", async () => {
  const site = await makeSite();
  const agents = await countAgents(site);
  const seed = join(site.folder, "seed");
  await site.hook(
    "analysis",
    `case $ORCH_RUN_ID in
1) exit 1 ;;
2) cd ${seed} && echo late >late.txt && git add -A && git -c user.name=B -c user.email=b@c commit -q -m "ORCH-1: analysis

Orchestrator-Run: 1" && git push -q ${site.remote} HEAD:${BRANCH} ;;
esac\n`,
  );
  const scheduler = await startTestScheduler(site, { config: onlyStages(site, "analysis") });
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await taskWhen(scheduler, "ORCH-1", ({ runs }) => runs[0]?.outcome === "failed");
  await makeDue(scheduler);
  const blocked = await taskWhen(scheduler, "ORCH-1", isOver);
  const late = await git(seed, "rev-parse", "HEAD");
  expect(blocked.task).toMatchObject({ status: "blocked", blockedReason: expect.stringContaining(late.slice(0, 12)) });
  expect(await git(site.remote, "rev-parse", BRANCH)).toBe(late);

  await git(site.remote, "update-ref", "-d", BRANCH);
  await scheduler.api.retryTask({ workItemId: "ORCH-1" }, {});
  const { task } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(task.status).toBe("done");
  expect(await agents()).toBe(2);
});

describe("work that was finished when the branch stood at what an earlier run of the task had pushed", () => {
  /** The work of a first run, whose gate could not be read, gets to the remote after all while a second one works. */
  const begin = async (points: Points) => {
    const site = await makeSite({ reaperGraceMs: 0 });
    const agents = await countAgents(site);
    const mirror = join(site.config.reposDir, "shop.git");
    await site.hook(
      "analysis",
      `case $ORCH_RUN_ID in
1) exit 99 ;;
2) git -C ${mirror} push -q ${site.remote} refs/orchestrator/runs/1:${BRANCH} ;;
*) git rev-parse refs/orchestrator/runs/2 >docs/work-items/ORCH-1/told.txt ;;
esac\n`,
    );
    const scheduler = await startTestScheduler(site, { points, config: onlyStages(site, "analysis") });
    await postTask(scheduler, { workItemId: "ORCH-1" });
    await taskWhen(scheduler, "ORCH-1", ({ runs }) => (runs[0]?.outcome ?? null) !== null);
    const runRef = (id: number) => git(mirror, "rev-parse", `refs/orchestrator/runs/${id}`);
    return { site, scheduler, agents, runRef };
  };

  test("is taken where that is off the branch by then", async () => {
    const points = new HeldPoints();
    const { site, scheduler, agents } = await begin(points);
    const pushing = points.hold("push.before");
    await makeDue(scheduler);
    await pushing.arrived;
    const again = points.hold("fetch.before");
    pushing.release();
    await again.arrived;
    await git(site.remote, "update-ref", "-d", BRANCH);
    again.release();
    const { task, runs } = await taskWhen(scheduler, "ORCH-1", isOver);
    expect(task.status).toBe("done");
    expect(runs.map((run) => [run.outcome, run.outcomeClass, run.pid === null])).toEqual([
      ["failed", null, false],
      ["superseded", "branch_moved", false],
      ["succeeded", null, true],
    ]);
    expect(await agents()).toBe(2);
  });

  test.each([
    ["by its push", []],
    ["by the run that goes on with it", ["collect.before"]],
  ])(
    "and that is met %s: the agent runs again, from there, and is told where the work is kept",
    async (_, breaking) => {
      let isSecond = false;
      const points = new BreakingPoints(breaking, () => isSecond);
      const { site, scheduler, agents, runRef } = await begin(points);
      isSecond = true;
      await makeDue(scheduler);
      await taskWhen(scheduler, "ORCH-1", ({ runs }) => runs[1]?.exitCode === 0);
      if (breaking.length > 0) {
        await reap(scheduler);
        await makeDue(scheduler);
      }
      const { task, runs } = await taskWhen(scheduler, "ORCH-1", isOver);
      expect(task.status).toBe("done");
      expect(runs).toHaveLength(3);
      expect(await agents()).toBe(3);
      expect(await git(site.remote, "rev-parse", `${BRANCH}^`)).toBe(await runRef(1));
      expect(await git(site.remote, "show", `${BRANCH}:docs/work-items/ORCH-1/told.txt`)).toBe(await runRef(2));
    },
  );
});

test("a staging run that met another run's push is worked anew on what was pushed, without a marker", async () => {
  const site = await makeSite({ stagingRunnerEnabled: true });
  const stager = await startGoodStager(site);
  const points = new HeldPoints();
  const pushing = points.hold("push.before");
  const config = { stagerUrl: stager.url, ...onlyStages(site, "development", "deploy-staging") };
  const scheduler = await startTestScheduler(site, { points, config });
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await pushing.arrived;
  const staging = points.hold("push.before");
  pushing.release();
  await staging.arrived;
  // What the first run is known by stands one commit further on, and at the remote.
  const mirror = join(site.config.reposDir, "shop.git");
  const run = "refs/orchestrator/runs/1";
  const message = "ORCH-1: development\n\nOrchestrator-Run: 1";
  const pushed = await git(mirror, "commit-tree", "-p", run, "-m", message, `${run}^{tree}`);
  await git(mirror, "update-ref", run, pushed);
  await git(mirror, "push", "-q", site.remote, `${run}:${BRANCH}`);
  staging.release();
  const { task, runs, jobs } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(task).toMatchObject({ status: "done", blockedReason: null });
  expect(runs.map((one) => one.outcomeClass)).toEqual([null, "branch_moved", null]);
  expect(stager.tested).toEqual([await git(mirror, "rev-parse", `${pushed}^`), pushed]);
  expect(await git(site.remote, "rev-parse", `${BRANCH}^`)).toBe(pushed);
  expect(jobs.map((job) => countMarkers(job.taskContent))).toEqual([0, 0]);
});
