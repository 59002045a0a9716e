import { existsSync } from "node:fs";
import { mkdir, readdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Config } from "@orchestrator/shared/config/config.ts";
import type { Stage } from "@orchestrator/shared/pipeline.ts";
import { describe, expect, test, vi } from "vitest";
import { ActiveRun } from "../../services/scheduler/active_runs.ts";
import { clearUpAfter } from "../../services/scheduler/clear_up.ts";
import { deferred } from "../helpers/deferred.ts";
import { git } from "../helpers/git.ts";
import { HeldPoints } from "../helpers/held_points.ts";
import { BreakingPoints, onlyStages } from "../helpers/on_the_way.ts";
import { makeSite, postTask, type Site, startTestScheduler, taskWhen } from "../helpers/scheduler.ts";
import { keepLog } from "./faults/kept_log.ts";
import { makeReadOnly } from "./faults/read_only_folder.ts";

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";

const workspacesOf = async ({ config }: Site): Promise<string[]> => (await readdir(config.workspacesDir)).sort();

/** An agent that says that it is there, and stays. */
const LINGER = "echo half >half.txt; touch ../../began; exec sleep 600\n";

/** The first stages, each with what of its settings is given; others as they are. */
const withStages = (site: Site, ...overs: Partial<Stage>[]): Pick<Config, "pipeline"> => {
  const { pipeline } = site.config;
  const stages = overs.map((over, n) => ({ ...pipeline.stages[n]!, ...over }));
  return { pipeline: { ...pipeline, stages } };
};

const began = (site: Site): Promise<void> =>
  expect.poll(() => existsSync(join(site.config.dataDir, "began")), { timeout: 20_000 }).toBe(true);

const kept = (site: Site, runId: number): Promise<string> =>
  git(join(site.config.reposDir, "shop.git"), "show", `refs/orchestrator/wip/${runId}:half.txt`);

describe("at its start a scheduler removes", () => {
  test("the workspaces of tasks that are done, and no others", async () => {
    const site = await makeSite();
    const { workspacesDir } = site.config;
    const config = onlyStages(site, "analysis");
    await site.hook("analysis", '[ "$ORCH_WORK_ITEM_ID" = ORCH-1 ] || exit 3\n');
    const first = await startTestScheduler(site, { config });
    await postTask(first, { workItemId: "ORCH-1" });
    await postTask(first, { workItemId: "ORCH-2" });
    await taskWhen(first, "ORCH-1", isOver);
    await taskWhen(first, "ORCH-2", ({ runs }) => runs[0]?.outcome === "failed");
    await first.context.activeRuns.whenIdle();
    await first.stop();
    const others = await workspacesOf(site);
    expect(others).toEqual([".ORCH-2.index", "ORCH-2"]);
    // As a crash between the settle and the clearing up leaves it, or a removal that was cut short.
    await mkdir(join(workspacesDir, "ORCH-1", ".git"), { recursive: true });
    await writeFile(join(workspacesDir, ".ORCH-1.index"), "");
    await mkdir(join(workspacesDir, "somebody-elses"));

    const second = await startTestScheduler(site, { config });
    await expect.poll(() => workspacesOf(site), { timeout: 20_000 }).toEqual([...others, "somebody-elses"]);
    await second.stop();
    await writeFile(join(workspacesDir, ".ORCH-1.index"), "");
    await startTestScheduler(site, { config });
    await expect.poll(() => workspacesOf(site), { timeout: 20_000 }).toEqual([...others, "somebody-elses"]);
  });

  test("that of a cancelled task, but not before what its agent left is kept", async () => {
    const site = await makeSite();
    const config = onlyStages(site, "analysis");
    await site.hook("analysis", LINGER);
    const first = await startTestScheduler(site, { config });
    await postTask(first, { workItemId: "ORCH-1" });
    await began(site);
    // What is kept is written there.
    const makeWritable = await makeReadOnly(site.config.reposDir);
    await first.api.cancelTask({ workItemId: "ORCH-1" }, {});
    await first.context.activeRuns.whenIdle();
    await first.stop();
    await makeWritable();
    expect(await workspacesOf(site)).toContain("ORCH-1");

    const mirror = join(site.config.reposDir, "shop.git");
    await rename(mirror, `${mirror}.away`);
    const { log, said } = keepLog();
    const second = await startTestScheduler(site, { log, config });
    await expect.poll(() => said("could not be removed").length, { timeout: 20_000 }).toBe(1);
    expect(said("could not be removed")[0]).toMatchObject({ level: "warn", work_item_id: "ORCH-1" });
    await second.stop();
    expect(await workspacesOf(site)).toContain("ORCH-1");

    await rename(`${mirror}.away`, mirror);
    await startTestScheduler(site, { config });
    await expect.poll(() => workspacesOf(site), { timeout: 20_000 }).toEqual([]);
    expect(await kept(site, 1)).toBe("half");
  });
});

describe("once a cancelled run has ended its workspace is removed", () => {
  test("with what its agent left kept", async () => {
    const site = await makeSite();
    await site.hook("analysis", LINGER);
    const scheduler = await startTestScheduler(site);
    await postTask(scheduler, { workItemId: "ORCH-1" });
    await began(site);
    await scheduler.api.cancelTask({ workItemId: "ORCH-1" }, {});
    await scheduler.context.activeRuns.whenIdle();
    expect(await workspacesOf(site)).toEqual([]);
    expect(await kept(site, 1)).toBe("half");
  });

  test.each(["fetch.after", "launch.workspace_half_made", "launch.workspace_ready"])(
    "where it was cancelled at %s, with what the agent before it left kept",
    async (point) => {
      const site = await makeSite();
      const config = onlyStages(site, "analysis");
      await site.hook("analysis", LINGER);
      const points = new HeldPoints();
      const scheduler = await startTestScheduler(site, { points, config });
      await postTask(scheduler, { workItemId: "ORCH-1" });
      await began(site);
      await scheduler.stop();

      const held = points.hold(point);
      const second = await startTestScheduler(site, { points, config });
      await held.arrived;
      await second.api.cancelTask({ workItemId: "ORCH-1" }, {});
      held.release();
      await second.context.activeRuns.whenIdle();
      expect(await workspacesOf(site)).toEqual([]);
      expect(await kept(site, 1)).toBe("half");
    },
  );

  test("by the run that is still at work in it, not by one that was taken over", async () => {
    const site = await makeSite();
    await site.hook("analysis", LINGER);
    const points = new HeldPoints();
    const scheduler = await startTestScheduler(site, { points });
    const { context } = scheduler;
    await postTask(scheduler, { workItemId: "ORCH-1" });
    await began(site);
    const held = points.hold("exit.seen");
    await scheduler.api.cancelTask({ workItemId: "ORCH-1" }, {});
    await held.arrived;
    const [run] = context.activeRuns.all();
    await clearUpAfter(context, new ActiveRun(run!.claim, context.clock));
    expect(await workspacesOf(site)).toContain("ORCH-1");
    held.release();
    await context.activeRuns.whenIdle();
    expect(await workspacesOf(site)).toEqual([]);
    expect(await kept(site, 1)).toBe("half");
  });
});

describe("once a task is cancelled while no run is under way its workspace is removed, with what its agent left kept", () => {
  const FAIL = "echo half >half.txt; exit 3\n";

  test.each([
    ["queued", { maxAttempts: 2 }],
    ["blocked", { maxAttempts: 1 }],
  ])("where its job was %s", async (_status, over) => {
    const site = await makeSite();
    await site.hook("analysis", FAIL);
    const { log, said } = keepLog();
    const scheduler = await startTestScheduler(site, { log, config: withStages(site, over) });
    await postTask(scheduler, { workItemId: "ORCH-1" });
    await taskWhen(scheduler, "ORCH-1", ({ runs }) => runs[0]?.outcome === "failed");
    await scheduler.context.activeRuns.whenIdle();
    expect(await workspacesOf(site)).toEqual([".ORCH-1.index", "ORCH-1"]);
    await scheduler.api.cancelTask({ workItemId: "ORCH-1" }, {});
    await expect.poll(() => workspacesOf(site), { timeout: 20_000 }).toEqual([]);
    expect(await kept(site, 1)).toBe("half");
    await expect.poll(() => said("removed the workspace")).toMatchObject([{ work_item_id: "ORCH-1" }]);
  });

  test("where it waited for approval", async () => {
    const site = await makeSite();
    const scheduler = await startTestScheduler(site, { config: withStages(site, {}, { approval: true }) });
    await postTask(scheduler, { workItemId: "ORCH-1" });
    await taskWhen(scheduler, "ORCH-1", ({ task }) => task.status === "waiting");
    await scheduler.context.activeRuns.whenIdle();
    expect(await workspacesOf(site)).toContain("ORCH-1");
    await scheduler.api.cancelTask({ workItemId: "ORCH-1" }, {});
    await expect.poll(() => workspacesOf(site), { timeout: 20_000 }).toEqual([]);
  });

  test("where its run had lost its monitor", async () => {
    const site = await makeSite();
    await site.hook("analysis", FAIL);
    const points = new BreakingPoints(["settle.before"]);
    const scheduler = await startTestScheduler(site, { points, config: withStages(site, {}) });
    await postTask(scheduler, { workItemId: "ORCH-1" });
    await expect.poll(() => points.broken, { timeout: 20_000 }).toEqual(["settle.before"]);
    await scheduler.context.activeRuns.whenIdle();
    expect(await workspacesOf(site)).toContain("ORCH-1");
    await scheduler.api.cancelTask({ workItemId: "ORCH-1" }, {});
    await expect.poll(() => workspacesOf(site), { timeout: 20_000 }).toEqual([]);
    expect(await kept(site, 1)).toBe("half");
  });

  test("but nothing more is begun once the scheduler stops", async () => {
    const site = await makeSite();
    await site.hook("analysis", "echo half >half.txt; exit 3\n");
    const config = onlyStages(site, "analysis");
    const scheduler = await startTestScheduler(site, { config });
    const { mirrors, activeRuns } = scheduler.context;
    for (const workItemId of ["ORCH-1", "ORCH-2"]) {
      await postTask(scheduler, { workItemId });
      await taskWhen(scheduler, workItemId, ({ runs }) => runs[0]?.outcome === "failed");
    }
    await activeRuns.whenIdle();
    // As a crash before that leaves it: what was left is to be kept yet, and each waits for the repository for that.
    const mirror = join(site.config.reposDir, "shop.git");
    for (const runId of [1, 2]) await git(mirror, "update-ref", "-d", `refs/orchestrator/wip/${runId}`);
    const busy = deferred();
    const holding = mirrors.get("shop").exclusive(() => busy.promise);
    for (const workItemId of ["ORCH-1", "ORCH-2"]) await scheduler.api.cancelTask({ workItemId }, {});
    const stopping = scheduler.stop();
    busy.resolve();
    await Promise.all([stopping, holding]);
    expect(await workspacesOf(site)).toEqual([".ORCH-2.index", "ORCH-2"]);
    expect(await kept(site, 1)).toBe("half");
  });

  test("or at the next start, should the scheduler stop while that waits for the repository", async () => {
    const site = await makeSite();
    await site.hook("analysis", FAIL);
    const config = withStages(site, { maxAttempts: 1 });
    const stopping = new AbortController();
    const { log, said } = keepLog();
    const first = await startTestScheduler(site, { log, config, signal: stopping.signal });
    const { activeRuns, mirrors } = first.context;
    await postTask(first, { workItemId: "ORCH-1" });
    await taskWhen(first, "ORCH-1", isOver);
    await activeRuns.whenIdle();
    // As if it could not have been kept at the run's end.
    const mirror = mirrors.get("shop");
    await git(mirror.gitDir, "update-ref", "-d", "refs/orchestrator/wip/1");
    const inUse = deferred();
    const user = mirror.exclusive(() => inUse.promise);
    const asked = vi.spyOn(mirror, "exclusive");
    await first.api.cancelTask({ workItemId: "ORCH-1" }, {});
    await expect.poll(() => asked.mock.calls.length, { timeout: 20_000 }).toBe(1);
    stopping.abort();
    await first.stop();
    inUse.resolve();
    await user;
    expect(await workspacesOf(site)).toContain("ORCH-1");
    expect(said("could not be removed")).toEqual([]);

    await startTestScheduler(site, { config });
    await expect.poll(() => workspacesOf(site), { timeout: 20_000 }).toEqual([]);
    expect(await kept(site, 1)).toBe("half");
  });
});
