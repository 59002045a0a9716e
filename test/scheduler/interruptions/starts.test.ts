import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { git } from "../../helpers/git.ts";
import { HeldPoints } from "../../helpers/held_points.ts";
import { makeDue, onlyStages } from "../../helpers/on_the_way.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../../helpers/scheduler.ts";
import { startSchedulerProcess } from "../../helpers/scheduler_process.ts";

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";
const lines = async (path: string): Promise<number> =>
  (await readFile(path, "utf8").catch(() => "")).split("\n").length - 1;

test("a workspace that was being made when the scheduler was stopped is nobody's work", async () => {
  const site = await makeSite();
  const tried = join(site.folder, "tried");
  await site.hook("analysis", `[ -e ${tried} ] && exit 0\ntouch ${tried}; rm -rf "$PWD"; exit 1\n`);
  const config = onlyStages(site, "analysis");
  const points = new HeldPoints();
  const first = await startTestScheduler(site, { points, config });
  await postTask(first, { workItemId: "ORCH-1" });
  const { runs } = await taskWhen(first, "ORCH-1", ({ runs }) => runs[0]?.outcome === "failed");
  const halfMade = points.hold("launch.workspace_half_made");
  await makeDue(first);
  await halfMade.arrived;
  const stopped = first.stop();
  halfMade.release();
  await stopped;

  const second = await startTestScheduler(site, { config });
  await makeDue(second);
  const { task } = await taskWhen(second, "ORCH-1", isOver);
  expect(task.status).toBe("done");
  const mirror = join(site.config.reposDir, "shop.git");
  expect(await git(mirror, "for-each-ref", "--format=%(refname)", "refs/orchestrator/wip")).toBe("");
  expect(runs).toHaveLength(1);
});

describe("a stage that is not run twice", () => {
  test("is not, where keeping what its failed run left fails; that is kept once it can be", async () => {
    const site = await makeSite();
    const mirror = join(site.config.reposDir, "shop.git");
    const deployments = join(site.folder, "deployments");
    await site.hook(
      "deploy",
      `echo "$ORCH_RUN_ID" >>${deployments}
[ "$(wc -l <${deployments})" -gt 1 ] && exit 0
echo "half deployed" >half.txt
mkdir -p ${mirror}/refs/orchestrator && rm -rf ${mirror}/refs/orchestrator/wip && : >${mirror}/refs/orchestrator/wip
exit 1
`,
    );
    const scheduler = await startTestScheduler(site);
    await postTask(scheduler, { workItemId: "ORCH-1", stage: "deploy" });
    const blocked = await taskWhen(scheduler, "ORCH-1", ({ runs }) => (runs[0]?.outcome ?? null) !== null);
    expect(blocked.runs).toMatchObject([{ outcome: "failed", exitCode: 1 }]);
    expect(blocked.task).toMatchObject({ status: "blocked", blockedReason: expect.stringContaining("rerun: false") });
    expect(await lines(deployments)).toBe(1);

    await rm(join(mirror, "refs/orchestrator/wip"));
    await scheduler.api.retryTask({ workItemId: "ORCH-1" }, {});
    const { task, runs } = await taskWhen(scheduler, "ORCH-1", isOver);
    expect(task.status).toBe("done");
    expect(await git(mirror, "show", `refs/orchestrator/wip/${runs[0]?.id}:half.txt`)).toBe("half deployed");
  });

  // The process may be there although nobody came to write down its number, or may never have been: who can tell?
  test.each(["spawn.before", "spawn.after"])("is not, where the scheduler was killed at %s", async (point) => {
    const site = await makeSite();
    const deployments = join(site.folder, "deployments");
    await site.hook("deploy", `echo "$ORCH_RUN_ID" >>${deployments}; while :; do sleep 0.05; done\n`);
    const first = await startSchedulerProcess(site, { ORCH_FAULT_POINT: point });
    const url = await first.ready;
    const body = JSON.stringify({ work_item_id: "ORCH-1", title: "t", repo: "shop", stage: "deploy" });
    await fetch(`${url}/tasks`, { method: "POST", headers: { "content-type": "application/json" }, body });
    expect(await first.exited).toMatchObject({ signal: "SIGKILL" });

    const second = await startTestScheduler(site);
    const { task, runs } = await taskWhen(second, "ORCH-1", isOver);
    expect(runs).toMatchObject([{ outcome: "interrupted", pid: null, exitCode: null }]);
    expect(task).toMatchObject({ status: "blocked", blockedReason: expect.stringContaining("rerun: false") });
    await second.context.activeRuns.whenIdle();
    expect(await lines(deployments)).toBeLessThanOrEqual(1);
  });

  test("is repeated, where it was known not to have begun", async () => {
    const site = await makeSite();
    const first = await startSchedulerProcess(site, { ORCH_FAULT_POINT: "launch.workspace_ready" });
    const url = await first.ready;
    const body = JSON.stringify({ work_item_id: "ORCH-1", title: "t", repo: "shop", stage: "deploy" });
    await fetch(`${url}/tasks`, { method: "POST", headers: { "content-type": "application/json" }, body });
    expect(await first.exited).toMatchObject({ signal: "SIGKILL" });
    const second = await startTestScheduler(site);
    expect((await taskWhen(second, "ORCH-1", isOver)).task.status).toBe("done");
  });
});
