import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { FAULT_POINTS } from "@orchestrator/shared/fault_points.ts";
import { findMarked } from "@orchestrator/shared/process/find_processes.ts";
import { findTask } from "@orchestrator/shared/storage/read_tasks.ts";
import { describe, expect, test } from "vitest";
import { git } from "../../helpers/git.ts";
import { HeldPoints } from "../../helpers/held_points.ts";
import { onlyStages } from "../../helpers/on_the_way.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../../helpers/scheduler.ts";

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";

/** What an agent's run of one stage comes by; the rest is the staging runner's, a merge's or a start's. */
const POINTS = FAULT_POINTS.scheduler.filter((name) => !/^(start|commit|merge|settle\.after|clear)/.test(name));
const UNTIL_EXIT = POINTS.slice(0, POINTS.indexOf("exit.marked"));

describe("a cancel at any moment leaves nothing of the run, moves nothing after it, and lets the next item through", () => {
  test.each(POINTS)("%s", async (point) => {
    const site = await makeSite();
    const points = new HeldPoints();
    const scheduler = await startTestScheduler(site, { points, config: onlyStages(site, "analysis") });
    const { activeRuns, liveness, storage, instanceId } = scheduler.context;
    const held = points.hold(point);
    // The claim may be written together with the task, and then the post is answered after the held commit.
    const posted = postTask(scheduler, { workItemId: "ORCH-1" });
    await held.arrived;
    const before = await git(site.remote, "for-each-ref");
    const cancelled = scheduler.api.cancelTask({ workItemId: "ORCH-1" }, {});
    // Inside a transaction the cancel has to wait for its end.
    if (!point.endsWith(".before_commit")) await cancelled;
    held.release();
    const answer = await cancelled;
    await posted;
    await activeRuns.whenIdle();

    if (point === "settle.before_commit") {
      expect(answer).toMatchObject({ kind: "invalid_state" });
    } else {
      expect(answer.kind).toBe("ok");
      const { task, jobs, runs } = (await findTask(storage, { workItemId: "ORCH-1" }))!;
      expect(task).toMatchObject({ status: "cancelled", stage: "analysis", leaseRunId: null });
      expect(jobs.map((job) => job.status)).toEqual(["cancelled"]);
      expect(runs.every((run) => run.outcome === "cancelled")).toBe(true);
      expect(await git(site.remote, "for-each-ref")).toBe(before);
    }
    expect(liveness.snapshot()).toEqual({});
    expect(findMarked({ instanceId, folder: join(site.config.workspacesDir, "ORCH-1") })).toEqual([]);
    await postTask(scheduler, { workItemId: "ORCH-2" });
    expect((await taskWhen(scheduler, "ORCH-2", isOver)).task.status).toBe("done");
  });
});

describe("a stop at any moment ends, and the next start takes the item to done without an attempt lost or an agent run for nothing", () => {
  test.each(POINTS)("%s", async (point) => {
    const site = await makeSite();
    const agents = join(site.folder, "agents");
    await writeFile(agents, "");
    await site.hook("analysis", `echo "$ORCH_RUN_ID" >>${agents}\n`);
    const points = new HeldPoints();
    const config = onlyStages(site, "analysis");
    const first = await startTestScheduler(site, { points, config });
    const held = points.hold(point);
    const posted = postTask(first, { workItemId: "ORCH-1" });
    await held.arrived;
    const stopped = first.stop();
    held.release();
    await posted;
    await stopped;
    expect(first.context.liveness.snapshot()).toEqual({});
    expect(findMarked({ instanceId: first.context.instanceId })).toEqual([]);

    const second = await startTestScheduler(site, { config });
    const { task, runs, jobs } = await taskWhen(second, "ORCH-1", isOver);
    expect(task).toMatchObject({ status: "done", blockedReason: null });
    expect(jobs.map((job) => [job.status, job.attempt])).toEqual([["done", 1]]);
    expect(runs.map((run) => run.outcome).slice(0, -1)).toEqual(runs.slice(1).map(() => "interrupted"));
    expect(await git(site.remote, "rev-list", "--count", "main..work/ORCH-1")).toBe("1");
    const paid = (await readFile(agents, "utf8")).split("\n").length - 1;
    expect(paid).toBeLessThanOrEqual((UNTIL_EXIT as string[]).includes(point) ? 2 : 1);
    if (!(UNTIL_EXIT as string[]).includes(point)) expect(runs).toHaveLength(1);
  });
});
