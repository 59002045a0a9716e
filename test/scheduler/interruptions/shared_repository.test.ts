import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { git } from "../../helpers/git.ts";
import { HeldPoints } from "../../helpers/held_points.ts";
import { onlyStages } from "../../helpers/on_the_way.ts";
import { setPreReceive } from "../../helpers/remote_repository.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../../helpers/scheduler.ts";

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";

test("items of one repository wait for each other's slow push without growing older: none is taken for hung", async () => {
  const site = await makeSite();
  const arrived = join(site.folder, "arrived");
  const goOn = join(site.folder, "go-on");
  const mayEnd = join(site.folder, "may-end");
  await site.hook(
    "analysis",
    `[ "$ORCH_WORK_ITEM_ID" = ORCH-2 ] && while [ ! -e ${mayEnd} ]; do sleep 0.02; done; exit 0\n`,
  );
  const points = new HeldPoints();
  const scheduler = await startTestScheduler(site, { points, config: onlyStages(site, "analysis") });
  const { activeRuns, liveness } = scheduler.context;
  await postTask(scheduler, { workItemId: "ORCH-2" });
  await taskWhen(scheduler, "ORCH-2", ({ runs }) => (runs[0]?.pid ?? null) !== null);
  await setPreReceive(site.remote, `touch ${arrived}; while [ ! -e ${goOn} ]; do sleep 0.02; done`);
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await expect.poll(() => readFile(arrived, "utf8").catch(() => null), { timeout: 20_000 }).toBe("");

  // The first pushes, the second has work to be collected, the third has to fetch.
  const collecting = points.hold("collect.before");
  await writeFile(mayEnd, "");
  await collecting.arrived;
  collecting.release();
  const fetching = points.hold("fetch.before");
  await postTask(scheduler, { workItemId: "ORCH-3" });
  await fetching.arrived;
  fetching.release();
  await sleep(100);
  const runOf = (workItemId: string) => activeRuns.all().find((run) => run.claim.task.workItemId === workItemId)!;
  const ages = () => ({
    collecting: liveness.see(runOf("ORCH-2").claim.job.id)!.ageMs,
    fetching: runOf("ORCH-3").phaseAgeMs(),
  });
  const before = ages();
  await sleep(500);
  const after = ages();
  expect(after.collecting - before.collecting).toBeLessThan(50);
  expect(after.fetching - before.fetching).toBeLessThan(50);
  await writeFile(goOn, "");

  for (const workItemId of ["ORCH-1", "ORCH-2", "ORCH-3"]) {
    const { task, runs } = await taskWhen(scheduler, workItemId, isOver);
    expect(task.status).toBe("done");
    expect(runs.map((run) => run.outcome)).toEqual(["succeeded"]);
    expect(await git(site.remote, "rev-parse", `work/${workItemId}`)).toBe(task.head);
  }
});

test("under load the limits hold at every moment, and the more urgent is begun before what came earlier", async () => {
  const site = await makeSite();
  const log = join(site.folder, "log");
  await site.hook("any", `echo "+ $ORCH_WORK_ITEM_ID" >>${log}; sleep 0.1; echo "- $ORCH_WORK_ITEM_ID" >>${log}\n`);
  const limits = { total: 3, perRepo: {}, perAgent: { analyst: 2 } };
  const config = { limits, ...onlyStages(site, "analysis") };
  const scheduler = await startTestScheduler(site, { config });
  await scheduler.api.pauseQueue({});
  const priorities = [0, 0, 5, -5, 5, 9, 0, 2];
  for (const [n, priority] of priorities.entries()) await postTask(scheduler, { workItemId: `ORCH-${n}`, priority });
  await scheduler.api.resumeQueue({});
  for (const n of priorities.keys()) {
    expect((await taskWhen(scheduler, `ORCH-${n}`, isOver)).task.status).toBe("done");
  }
  const claimed = await scheduler.context.storage.query<{ taskId: number }>(
    "SELECT task_id FROM task_events WHERE kind = 'claimed' ORDER BY id",
  );
  expect(claimed.map(({ taskId }) => taskId - 1)).toEqual([5, 2, 4, 7, 0, 1, 6, 3]);
  let running = 0;
  let most = 0;
  for (const line of (await readFile(log, "utf8")).trim().split("\n")) {
    running += line.startsWith("+") ? 1 : -1;
    most = Math.max(most, running);
  }
  expect(most).toBe(2);
});
