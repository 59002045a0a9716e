import { rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isThere } from "@orchestrator/shared/is_there.ts";
import { isAlive } from "@orchestrator/shared/process/proc_table.ts";
import { openReadOnly } from "@orchestrator/shared/storage/open.ts";
import { describe, expect, test } from "vitest";
import { exitNotePath } from "../../../services/scheduler/exit_notes.ts";
import { makeDue, onlyStages } from "../../helpers/on_the_way.ts";
import { makeSite, postTask, type Site, startTestScheduler, taskWhen } from "../../helpers/scheduler.ts";
import { type SchedulerProcess, startSchedulerProcess } from "../../helpers/scheduler_process.ts";
import { mountSmallDisk } from "../../helpers/small_disk.ts";
import { countAgents } from "./count_agents.ts";
import { keepLog } from "./kept_log.ts";

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";
const hasEnded = ({ runs }: { runs: { outcome: string | null }[] }) => (runs[0]?.outcome ?? null) !== null;

/** A site whose data has a disk of its own; what the agents work on stands elsewhere. */
const siteOnSmallDisk = async () => {
  const site = await makeSite({ killGraceMs: 300 });
  const { config, folder } = site;
  const places = { reposDir: join(folder, "repos"), workspacesDir: join(folder, "workspaces") };
  Object.assign(config, places);
  return { site, disk: await mountSmallDisk(config.dataDir) };
};

/** Runs a scheduler of its own on the site, whose only task's agent is at work. */
const processAtWork = async (site: Site, began: string): Promise<{ scheduler: SchedulerProcess; url: string }> => {
  const scheduler = await startSchedulerProcess(site, placesOf(site));
  const url = await scheduler.ready;
  await fetch(`${url}/tasks`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ work_item_id: "ORCH-1", title: "t", repo: "shop" }),
  });
  await expect.poll(async () => (await readRuns(url))[0]?.pid ?? null, { timeout: 20_000 }).not.toBe(null);
  await expect.poll(() => isThere(began), { timeout: 20_000 }).toBe(true);
  return { scheduler, url };
};

const placesOf = ({ config }: Site) => ({
  ORCH_REPOS_DIR: config.reposDir,
  ORCH_WORKSPACES_DIR: config.workspacesDir,
  ORCH_KILL_GRACE_MS: String(config.killGraceMs),
});

interface RunView {
  stage: string;
  pid: number | null;
  outcome: string | null;
  exit_code: number | null;
}

const readRuns = async (url: string): Promise<RunView[]> =>
  ((await (await fetch(`${url}/tasks/ORCH-1`)).json()) as { runs: RunView[] }).runs;

/** Runs a scheduler in this process whose only task's agent is at work, and does not end by itself. */
const atWork = async (site: Site) => {
  const began = await endlessAgents(site);
  const { log, said } = keepLog();
  const scheduler = await startTestScheduler(site, { log, config: onlyStages(site, "analysis") });
  await postTask(scheduler, { workItemId: "ORCH-1" });
  const { runs } = await taskWhen(scheduler, "ORCH-1", ({ runs }) => (runs[0]?.pid ?? null) !== null);
  await expect.poll(() => isThere(began), { timeout: 20_000 }).toBe(true);
  const { pid, pidStarted } = runs[0]!;
  return { scheduler, said, isAgentAlive: () => isAlive(pid!, pidStarted!) };
};

/** Makes the agents of the analysis work until they are ended. @returns the file that says that one has begun. */
const endlessAgents = async (site: Site): Promise<string> => {
  const began = join(site.folder, "began");
  await site.hook("analysis", `touch ${began}; while :; do sleep 0.05; done\n`);
  return began;
};

const endingsSeenByOthers = async ({ config }: Site) => {
  const reader = await openReadOnly(config.dbUrl, null);
  const runs = await reader.query("SELECT outcome, signal FROM agent_runs");
  await reader.close();
  return runs;
};

describe("an agent is ended although the disk of its scheduler is full", () => {
  test.each(["has no room for a file", "has no room at all"])("which %s", async (what) => {
    const { site, disk } = await siteOnSmallDisk();
    const { scheduler, said, isAgentAlive } = await atWork(site);
    await disk.refuseFiles();
    if (what === "has no room at all") await disk.fill();
    const [run] = scheduler.context.activeRuns.all();
    run!.end({ outcome: "timed_out", class: null, reason: "ran longer than its timeout" });
    await expect.poll(isAgentAlive, { timeout: 10_000 }).toBe(false);
    await disk.free();
    const { runs } = await taskWhen(scheduler, "ORCH-1", hasEnded);
    expect(runs).toMatchObject([{ outcome: "timed_out", signal: "SIGTERM" }]);
    expect(said("could not")).toEqual([]);
  });

  test("when its task is cancelled", async () => {
    const { site, disk } = await siteOnSmallDisk();
    const { scheduler, isAgentAlive } = await atWork(site);
    await disk.refuseFiles();
    await scheduler.api.cancelTask({ workItemId: "ORCH-1" }, {});
    await expect.poll(isAgentAlive, { timeout: 10_000 }).toBe(false);
  });

  test("when the scheduler is told to end, which ends as ever", async () => {
    const { site, disk } = await siteOnSmallDisk();
    const { scheduler } = await processAtWork(site, await endlessAgents(site));
    await disk.refuseFiles();
    process.kill(scheduler.pid, "SIGTERM");
    expect(await scheduler.exited).toEqual({ code: 0, signal: null });
  });
});

test("an agent that cannot be ended is told to end until it is, and the scheduler that stops waits for that", async () => {
  const site = await makeSite();
  const around = join(site.folder, "around");
  site.config.workspacesDir = join(around, "workspaces");
  const { scheduler, said, isAgentAlive } = await atWork(site);
  // Whose working directory is in the workspace cannot be told where the way there goes round in circles.
  await rename(around, `${around}.away`);
  await symlink(around, around);
  const stopping = scheduler.stop();
  const complaints = () => said("an agent could not be ended");
  await expect.poll(() => complaints().length, { timeout: 20_000 }).toBeGreaterThan(1);
  expect(complaints()[0]).toMatchObject({ level: "error", run_id: 1, tries: 1, err: { code: "ELOOP" } });
  expect(isAgentAlive()).toBe(true);
  await rm(around);
  await rename(`${around}.away`, around);
  await stopping;
  expect(isAgentAlive()).toBe(false);
  expect(await endingsSeenByOthers(site)).toEqual([{ outcome: "interrupted", signal: "SIGTERM" }]);
});

test("an agent that exits 0 on a full disk is not run again, although its scheduler is killed before there is room", async () => {
  const { site, disk } = await siteOnSmallDisk();
  const began = join(site.folder, "began");
  const go = join(site.folder, "go");
  await site.hook("analysis", `echo $ORCH_RUN_ID >>${began}; while [ ! -e ${go} ]; do sleep 0.02; done\n`);
  const { scheduler } = await processAtWork(site, began);
  await disk.refuseFiles();
  await disk.fill();
  await writeFile(go, "");
  const waiting = () => scheduler.lines.filter(({ what }) => what === "exited");
  await expect.poll(() => waiting().length, { timeout: 20_000 }).toBeGreaterThan(0);
  expect(waiting()[0]).toMatchObject({ err: { code: "SQLITE_FULL" } });
  await scheduler.killHard();
  await disk.free();

  const url = await (await startSchedulerProcess(site, placesOf(site))).ready;
  const ofAnalysis = async () => (await readRuns(url)).filter(({ stage }) => stage === "analysis");
  await expect.poll(async () => (await ofAnalysis())[1]?.outcome ?? null, { timeout: 20_000 }).not.toBe(null);
  expect(await ofAnalysis()).toMatchObject([
    { outcome: "interrupted", exit_code: 0 },
    { outcome: "succeeded", pid: null },
  ]);
});

test("an agent whose exit could not be noted for want of room is not started: a tool error of the class no_space", async () => {
  const site = await makeSite();
  const agents = await countAgents(site);
  const scheduler = await startTestScheduler(site, { config: onlyStages(site, "analysis") });
  const folder = join(site.config.dataDir, "exits");
  const disk = await mountSmallDisk(folder);
  await writeFile(join(folder, "something"), "x");
  await disk.fill();
  await postTask(scheduler, { workItemId: "ORCH-1" });
  const { runs, jobs } = await taskWhen(scheduler, "ORCH-1", hasEnded);
  expect(runs).toMatchObject([{ outcome: "tool_error", outcomeClass: "no_space", pid: null }]);
  expect(jobs).toMatchObject([{ status: "queued", attempt: 1, error: expect.stringContaining("note of an exit") }]);
  expect(await isThere(exitNotePath(site.config.dataDir, 1))).toBe(false);
  expect(await agents()).toBe(0);
  await disk.free();
  await makeDue(scheduler);
  expect((await taskWhen(scheduler, "ORCH-1", isOver)).task.status).toBe("done");
  expect(await agents()).toBe(1);
});
