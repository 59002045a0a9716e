import { join } from "node:path";
import { findMarked } from "@orchestrator/shared/process/end_processes.ts";
import { Storage } from "@orchestrator/shared/storage/storage.ts";
import { expect, test } from "vitest";
import type { Scheduler } from "../../../services/scheduler/scheduler.ts";
import { deferred } from "../../helpers/deferred.ts";
import { git } from "../../helpers/git.ts";
import { HeldPoints } from "../../helpers/held_points.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../../helpers/scheduler.ts";

/** Resolves when the run's agent has written `text`. */
const hasWritten = async ({ api }: Scheduler, runId: number, text: string): Promise<void> => {
  const log = await api.openLog(runId, { follow: true });
  if (log.kind !== "log") throw new Error(log.kind);
  let seen = "";
  for await (const chunk of log.read(new AbortController().signal)) {
    seen += Buffer.from(chunk).toString();
    if (seen.includes(text)) return;
  }
  throw new Error(`the run ended after it had written: ${seen}`);
};

test("the processes of a cancelled run end, its work is kept, and nothing is pushed", async () => {
  const site = await makeSite();
  await site.hook("analysis", "echo precious >notes.txt; sleep 1000 & echo working; wait");
  const scheduler = await startTestScheduler(site);
  const { instanceId, activeRuns, reaperCounters } = scheduler.context;
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await taskWhen(scheduler, "ORCH-1", ({ events }) => events.some(({ kind }) => kind === "started"));
  await hasWritten(scheduler, 1, "working");
  expect(findMarked({ instanceId, runId: 1 }).length).toBeGreaterThanOrEqual(2);

  const cancelled = await scheduler.api.cancelTask({ workItemId: "ORCH-1" }, { reason: "no longer wanted" });
  expect(cancelled.kind).toBe("ok");
  await activeRuns.whenIdle();
  expect(findMarked({ instanceId, runId: 1 })).toEqual([]);
  const { task, jobs, runs } = (await scheduler.api.findTask({ id: 1 }))!;
  expect([task.status, jobs.map((job) => job.status), runs.map((run) => run.outcome)]).toEqual([
    ...["cancelled", ["cancelled"], ["cancelled"]],
  ]);
  expect(reaperCounters.settleSuperseded).toBe(0);
  const mirror = join(site.config.reposDir, "shop.git");
  expect(await git(mirror, "show", "refs/orchestrator/wip/1:notes.txt")).toBe("precious");
  expect(await git(site.remote, "for-each-ref", "--format=%(refname)")).toBe("refs/heads/main");
});

test("a run that is cancelled during its launch starts no agent", async () => {
  const site = await makeSite();
  const points = new HeldPoints();
  const held = points.hold("launch.workspace_ready");
  const scheduler = await startTestScheduler(site, { points });
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await held.arrived;
  await scheduler.api.cancelTask({ id: 1 }, {});
  held.release();
  await scheduler.context.activeRuns.whenIdle();
  const { runs, events } = (await scheduler.api.findTask({ id: 1 }))!;
  expect(runs).toMatchObject([{ outcome: "cancelled", pid: null }]);
  expect(events.map(({ kind }) => kind)).toEqual(["created", "claimed", "cancelled"]);
  expect(points.reached).not.toContain("spawn.before");
});

test("a run whose claim is committed together with the cancel is ended too", async () => {
  const site = await makeSite();
  const points = new HeldPoints();
  const held = points.hold("claim.before");
  const scheduler = await startTestScheduler(site, { points });
  const { storage, activeRuns } = scheduler.context;
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await held.arrived;
  // Claim and cancel both wait for a transaction that is held open, and so share the next one.
  const open = deferred();
  const holder = storage.write(() => open.promise);
  const claimWaits = deferred();
  storage.write = (work) => {
    const written = Storage.prototype.write.call(storage, work) as ReturnType<typeof storage.write<never>>;
    claimWaits.resolve();
    return written;
  };
  held.release();
  await claimWaits.promise;
  const cancelled = scheduler.api.cancelTask({ id: 1 }, {});
  open.resolve();
  await Promise.all([holder, cancelled]);
  expect(activeRuns.get(1)?.endReason?.outcome).toBe("cancelled");
  await activeRuns.whenIdle();
  expect(points.reached).not.toContain("spawn.before");
  expect((await scheduler.api.findTask({ id: 1 }))!.runs).toMatchObject([{ outcome: "cancelled", pid: null }]);
});

test("what is being finalized when its task is cancelled is kept, and published no more", async () => {
  const site = await makeSite();
  const points = new HeldPoints();
  const held = points.hold("gate.read");
  const scheduler = await startTestScheduler(site, { points });
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await held.arrived;
  await scheduler.api.cancelTask({ id: 1 }, {});
  held.release();
  await scheduler.context.activeRuns.whenIdle();
  const { task, runs, events } = (await scheduler.api.findTask({ id: 1 }))!;
  expect(task).toMatchObject({ status: "cancelled", stage: "analysis" });
  expect(runs).toMatchObject([{ outcome: "cancelled", exitCode: 0 }]);
  expect(events.map(({ kind }) => kind)).toEqual(["created", "claimed", "started", "exited", "cancelled"]);
  expect(scheduler.context.reaperCounters.settleSuperseded).toBe(1);
  expect(await git(site.remote, "for-each-ref", "--format=%(refname)")).toBe("refs/heads/main");
  const mirror = join(site.config.reposDir, "shop.git");
  const refs = (await git(mirror, "for-each-ref", "--format=%(refname)")).split("\n");
  expect(refs).toContain("refs/orchestrator/runs/1");
  expect(refs).not.toContain("refs/heads/work/ORCH-1");
});
