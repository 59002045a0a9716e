import { renameSync, writeFileSync } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { readPauses } from "@orchestrator/shared/storage/read_pauses.ts";
import { expect, test } from "vitest";
import { git } from "../../helpers/git.ts";
import { HeldPoints } from "../../helpers/held_points.ts";
import { makeDue, onlyStages } from "../../helpers/on_the_way.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../../helpers/scheduler.ts";
import { countAgents } from "./count_agents.ts";
import { keepLog } from "./kept_log.ts";
import { makeReadOnly } from "./read_only_folder.ts";

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";
const hasEnded = ({ runs }: { runs: { outcome: string | null }[] }) => (runs[0]?.outcome ?? null) !== null;

test("a file in the place of the workspaces' folder costs no attempt, and after three tasks nothing is claimed until it is gone", async () => {
  const site = await makeSite();
  const { workspacesDir } = site.config;
  const agents = await countAgents(site);
  const { log, said } = keepLog();
  const scheduler = await startTestScheduler(site, { log, config: onlyStages(site, "analysis") });
  const { storage } = scheduler.context;
  // At once: a claim that is just being considered would make a folder that is missing again.
  renameSync(workspacesDir, `${workspacesDir}.away`);
  writeFileSync(workspacesDir, "");
  for (const workItemId of ["ORCH-1", "ORCH-2", "ORCH-3"]) {
    await postTask(scheduler, { workItemId });
    const { runs, jobs } = await taskWhen(scheduler, workItemId, hasEnded);
    expect(runs).toMatchObject([{ outcome: "tool_error", outcomeClass: "file_system", pid: null }]);
    expect(jobs).toMatchObject([{ status: "queued", attempt: 1, error: expect.stringContaining(workspacesDir) }]);
    expect(jobs[0]?.error).toMatch(/EEXIST|ENOTDIR/);
  }
  expect(said("settled")[0]).toMatchObject({ level: "warn", outcome: "tool_error", class: "file_system" });
  await expect.poll(async () => (await readPauses(storage)).map(({ what }) => what)).toEqual(["agent:analyst"]);

  await rm(workspacesDir);
  await rename(`${workspacesDir}.away`, workspacesDir);
  await scheduler.api.resumeQueue({ agent: "analyst" });
  await makeDue(scheduler);
  for (const workItemId of ["ORCH-1", "ORCH-2", "ORCH-3"]) {
    expect((await taskWhen(scheduler, workItemId, isOver)).task.status).toBe("done");
  }
  expect(await agents()).toBe(3);
});

test("a mirror that has become read-only when finished work is collected costs no attempt and no second agent", async () => {
  const site = await makeSite();
  const agents = await countAgents(site);
  const points = new HeldPoints();
  const scheduler = await startTestScheduler(site, { points, config: onlyStages(site, "analysis") });
  const held = points.hold("collect.before");
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await held.arrived;
  const makeWritable = await makeReadOnly(site.config.reposDir);
  held.release();
  const { runs, jobs } = await taskWhen(scheduler, "ORCH-1", hasEnded);
  expect(runs).toMatchObject([{ outcome: "tool_error", outcomeClass: "file_system", exitCode: 0 }]);
  expect(runs[0]?.reason).toContain("EROFS");
  expect(runs[0]?.reason).toContain(site.config.reposDir);
  expect(jobs).toMatchObject([{ status: "queued", attempt: 1 }]);

  await makeWritable();
  await makeDue(scheduler);
  const { task } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(task.status).toBe("done");
  expect(await agents()).toBe(1);
});

test("how a run ended stands where what it left cannot be kept at once; it is kept before its workspace is used again", async () => {
  const site = await makeSite();
  const agents = await countAgents(site, `[ "$ORCH_ATTEMPT" != 1 ] || { echo half >half.txt; exit 3; }\n`);
  const points = new HeldPoints();
  const { log, said } = keepLog();
  const scheduler = await startTestScheduler(site, { log, points, config: onlyStages(site, "analysis") });
  const held = points.hold("exit.recorded");
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await held.arrived;
  const makeWritable = await makeReadOnly(site.config.reposDir);
  held.release();
  const { runs, jobs } = await taskWhen(scheduler, "ORCH-1", hasEnded);
  expect(runs).toMatchObject([{ outcome: "failed", outcomeClass: null, exitCode: 3 }]);
  expect(jobs).toMatchObject([{ status: "queued", attempt: 2 }]);
  expect(said("could not be kept yet")[0]).toMatchObject({ level: "error", err: { code: "file_system" } });

  await makeWritable();
  await makeDue(scheduler);
  expect((await taskWhen(scheduler, "ORCH-1", isOver)).task.status).toBe("done");
  expect(await agents()).toBe(2);
  const mirror = join(site.config.reposDir, "shop.git");
  expect(await git(mirror, "show", "refs/orchestrator/wip/1:half.txt")).toBe("half");
});
