import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { git } from "../../helpers/git.ts";
import { startGoodStager } from "../../helpers/good_stager.ts";
import { BreakingPoints, makeDue, onlyStages, reap } from "../../helpers/on_the_way.ts";
import { makeSite, postTask, type Site, startTestScheduler, taskWhen } from "../../helpers/scheduler.ts";
import { countAgents } from "../faults/count_agents.ts";

type SiteConfig = Partial<Site["config"]>;

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";

/** Has a scheduler bring an item to its end and stop, and takes its database away: the next one begins with run 1 as well. */
const workOnce = async (site: Site, config: SiteConfig, task: { workItemId: string; stage?: string }) => {
  const scheduler = await startTestScheduler(site, { config });
  await postTask(scheduler, task);
  expect((await taskWhen(scheduler, task.workItemId, isOver)).task.status).toBe("done");
  await scheduler.stop();
  const { dataDir } = site.config;
  for (const name of await readdir(dataDir)) {
    if (name.startsWith("orchestrator.db")) await rm(join(dataDir, name));
  }
};

/** A scheduler on a fresh database whose first run breaks off at `point`, and is then taken up by a second one. */
const workTwice = async (
  site: Site,
  config: SiteConfig,
  point: string,
  task: { workItemId: string; stage?: string },
) => {
  const points = new BreakingPoints([point]);
  const scheduler = await startTestScheduler(site, { points, config });
  await postTask(scheduler, task);
  await expect.poll(() => points.broken, { timeout: 20_000 }).toEqual([point]);
  await reap(scheduler);
  await makeDue(scheduler);
  return taskWhen(scheduler, task.workItemId, isOver);
};

describe("a database that was begun anew beside older mirrors gives the numbers of their runs again", () => {
  test("half-done work is kept, and what was kept under its number is so still", async () => {
    const site = await makeSite({ reaperGraceMs: 0 });
    const config = onlyStages(site, "analysis");
    const mirror = join(site.config.reposDir, "shop.git");
    await workOnce(site, config, { workItemId: "ORCH-1" });
    const old = await git(mirror, "rev-parse", "refs/orchestrator/runs/1");
    await git(mirror, "update-ref", "refs/orchestrator/wip/1", `${old}^`);
    const kept = await git(mirror, "rev-parse", "refs/orchestrator/wip/1");

    await site.hook("analysis", `[ "$ORCH_RUN_ID" = 1 ] || exit 0; echo half >half.txt; exit 1\n`);
    const { task } = await workTwice(site, config, "exit.recorded", { workItemId: "ORCH-2" });
    expect(task.status).toBe("done");
    expect(await git(mirror, "show", "refs/orchestrator/wip/1:half.txt")).toBe("half");
    const aside = await git(mirror, "for-each-ref", "--format=%(refname)", "refs/orchestrator/old");
    expect(aside.split("\n").sort()).toEqual([old, kept].map((sha) => `refs/orchestrator/old/1/${sha}`).sort());
  });

  test("finished work is taken for what it is, and its agent is not run again", async () => {
    const site = await makeSite({ reaperGraceMs: 0 });
    const config = onlyStages(site, "analysis");
    await workOnce(site, config, { workItemId: "ORCH-1" });
    const agents = await countAgents(
      site,
      `mkdir -p docs/work-items/ORCH-2; echo mine >docs/work-items/ORCH-2/mine.txt\n`,
    );
    const { task, runs } = await workTwice(site, config, "collect.before", { workItemId: "ORCH-2" });
    expect(task.status).toBe("done");
    expect(runs.map((run) => run.pid === null)).toEqual([false, true]);
    expect(await agents()).toBe(1);
    expect(await git(site.remote, "show", "work/ORCH-2:docs/work-items/ORCH-2/mine.txt")).toBe("mine");
  });

  test("a staging run does not pass for one that was tested to its end", async () => {
    const site = await makeSite({ stagingRunnerEnabled: true, reaperGraceMs: 0 });
    const stager = await startGoodStager(site);
    const config = { stagerUrl: stager.url, ...onlyStages(site, "deploy-staging") };
    const item = { workItemId: "ORCH-1", stage: "deploy-staging" };
    await workOnce(site, config, item);
    const before = await git(site.remote, "rev-parse", "work/ORCH-1");
    const { task } = await workTwice(site, config, "commit.before", item);
    expect(task.status).toBe("done");
    expect(stager.tested).toHaveLength(3);
    expect(await git(site.remote, "rev-parse", "work/ORCH-1^")).toBe(before);
  });
});
