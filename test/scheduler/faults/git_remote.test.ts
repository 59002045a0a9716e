import { readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { findMarked } from "@orchestrator/shared/process/find_processes.ts";
import { describe, expect, test } from "vitest";
import { git } from "../../helpers/git.ts";
import { HeldPoints } from "../../helpers/held_points.ts";
import { makeDue, onlyStages } from "../../helpers/on_the_way.ts";
import { setPreReceive } from "../../helpers/remote_repository.ts";
import { makeSite, postTask, type Site, startTestScheduler, taskWhen } from "../../helpers/scheduler.ts";
import { countAgents } from "./count_agents.ts";
import { startGitServer } from "./git_server.ts";
import { keepLog } from "./kept_log.ts";

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";
const hasEnded = ({ runs }: { runs: { outcome: string | null }[] }) => (runs[0]?.outcome ?? null) !== null;

const at = (site: Site, url: string) => ({ repos: { shop: { ...site.config.repos.shop!, url } } });

test("a remote that hangs in a fetch: the launch is ended in its time with every process, and tried again", async () => {
  const site = await makeSite({ launchTimeoutMs: 0 });
  const server = await startGitServer(site.remote);
  server.mode = "hanging";
  const agents = await countAgents(site);
  const { log, said } = keepLog();
  const config = { ...at(site, server.url), ...onlyStages(site, "analysis") };
  const scheduler = await startTestScheduler(site, { log, config });
  const { instanceId } = scheduler.context;
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await expect.poll(() => server.connections, { timeout: 20_000 }).toBe(1);
  await scheduler.reaper.sweep();
  const { events, jobs } = await taskWhen(scheduler, "ORCH-1", hasEnded);
  const named = { outcome: "tool_error", class: "launch_timeout" };
  expect(events.at(-1)).toMatchObject({ kind: "retried", detail: named });
  expect(jobs).toMatchObject([{ status: "queued", attempt: 1 }]);
  expect(said("settled")[0]).toMatchObject({ level: "warn", ...named });
  expect(findMarked({ instanceId })).toEqual([]);

  server.mode = "well";
  await makeDue(scheduler);
  const { task } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(task.status).toBe("done");
  expect(await agents()).toBe(1);
  expect(await git(site.remote, "rev-parse", "work/ORCH-1")).toBe(task.head);
});

test("a remote that hangs in a push: the finalizer expires, its processes go, and the work is published later without its agent", async () => {
  const site = await makeSite({ finalizerMaxMs: 0 });
  const agents = await countAgents(site);
  const arrived = join(site.folder, "arrived");
  await setPreReceive(site.remote, `touch ${arrived}; exec sleep 600`);
  const { log, said } = keepLog();
  const scheduler = await startTestScheduler(site, { log, config: onlyStages(site, "analysis") });
  const { instanceId, reaperCounters } = scheduler.context;
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await expect.poll(() => readFile(arrived, "utf8").catch(() => null), { timeout: 20_000 }).toBe("");
  await scheduler.reaper.sweep();
  const { events, runs } = await taskWhen(scheduler, "ORCH-1", hasEnded);
  expect(runs).toMatchObject([{ outcome: "tool_error", outcomeClass: "finalizer_expired", exitCode: 0 }]);
  expect(events.at(-1)).toMatchObject({ kind: "requeued", detail: { by: "finalizer_expired" } });
  expect(reaperCounters).toMatchObject({ finalizerExpired: 1, reapedRequeued: 0, errors: 0 });
  expect(said("ended a finalizer that hung")).toMatchObject([{ level: "warn", run_id: runs[0]?.id, next: "again" }]);
  await expect.poll(() => findMarked({ instanceId }), { timeout: 20_000 }).toEqual([]);

  await setPreReceive(site.remote, "exit 0");
  await makeDue(scheduler);
  const { task, jobs } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(task.status).toBe("done");
  expect(jobs.map((job) => [job.status, job.attempt])).toEqual([["done", 1]]);
  expect(await agents()).toBe(1);
  expect(await git(site.remote, "rev-parse", "work/ORCH-1")).toBe(task.head);
});

describe("a remote that is away, and comes back:", () => {
  test.each<[string, (site: Site) => Promise<{ url: string; takeAway(): Promise<void>; bringBack(): Promise<void> }>]>([
    [
      "its server refuses connections",
      async (site) => {
        const server = await startGitServer(site.remote);
        return { url: server.url, takeAway: server.close, bringBack: server.open };
      },
    ],
    [
      "its repository is deleted and restored",
      async (site) => ({
        url: site.remote,
        takeAway: () => rename(site.remote, `${site.remote}.away`),
        bringBack: () => rename(`${site.remote}.away`, site.remote),
      }),
    ],
  ])("%s", async (_, make) => {
    const site = await makeSite();
    const { url, takeAway, bringBack } = await make(site);
    const agents = await countAgents(site);
    const points = new HeldPoints();
    const { log, said } = keepLog();
    const config = { ...at(site, url), ...onlyStages(site, "analysis") };
    const scheduler = await startTestScheduler(site, { log, points, config });
    await takeAway();
    await postTask(scheduler, { workItemId: "ORCH-1" });
    const first = await taskWhen(scheduler, "ORCH-1", hasEnded);
    expect(first.events.at(-1)).toMatchObject({
      kind: "retried",
      detail: { outcome: "tool_error", class: "git_fetch", reason: expect.stringContaining("git fetch failed") },
    });
    expect(first.jobs).toMatchObject([{ status: "queued", attempt: 1 }]);
    expect(await agents()).toBe(0);

    await bringBack();
    const pushing = points.hold("push.before");
    await makeDue(scheduler);
    await pushing.arrived;
    await takeAway();
    pushing.release();
    const second = await taskWhen(scheduler, "ORCH-1", ({ runs }) => (runs[1]?.outcome ?? null) !== null);
    expect(second.runs[1]).toMatchObject({ outcome: "tool_error", outcomeClass: "git_push", exitCode: 0 });
    expect(second.events.at(-1)).toMatchObject({ kind: "retried", detail: { class: "git_push" } });

    await bringBack();
    await makeDue(scheduler);
    const { task, jobs } = await taskWhen(scheduler, "ORCH-1", isOver);
    expect(task.status).toBe("done");
    expect(jobs.map((job) => [job.status, job.attempt])).toEqual([["done", 1]]);
    expect(await agents()).toBe(1);
    expect(await git(site.remote, "rev-parse", "work/ORCH-1")).toBe(task.head);
    expect(said("settled").map(({ level, class: named }) => [level, named])).toEqual([
      ["warn", "git_fetch"],
      ["warn", "git_push"],
      ["info", null],
    ]);
  });
});

describe("a mirror that is gone, or half gone, between two stages is made again; the branch is where it was", () => {
  test.each(["", "HEAD", "objects"])("missing: shop.git/%s", async (part) => {
    const site = await makeSite();
    const points = new HeldPoints();
    const scheduler = await startTestScheduler(site, { points, config: onlyStages(site, "analysis", "architecture") });
    const cleared = points.hold("clear.before");
    await postTask(scheduler, { workItemId: "ORCH-1" });
    await cleared.arrived;
    const nextLaunch = points.hold("claim.after");
    cleared.release();
    await nextLaunch.arrived;
    await rm(join(site.config.reposDir, "shop.git", part), { recursive: true });
    nextLaunch.release();
    const { task, runs } = await taskWhen(scheduler, "ORCH-1", isOver);
    expect(task).toMatchObject({ status: "done", blockedReason: null });
    expect(runs.map((run) => run.outcome)).toEqual(["succeeded", "succeeded"]);
    expect(await git(site.remote, "rev-list", "--count", "main..work/ORCH-1")).toBe("2");
  });
});

test("an agent whose workspace is deleted under it, and that then exits 0, has failed; the next attempt has a whole one", async () => {
  const site = await makeSite();
  const tried = join(site.folder, "tried");
  await site.hook("analysis", `[ -e ${tried} ] && exit 0\ntouch ${tried}; rm -rf "$PWD"; exit 99\n`);
  const { log, said } = keepLog();
  const scheduler = await startTestScheduler(site, { log, config: onlyStages(site, "analysis") });
  await postTask(scheduler, { workItemId: "ORCH-1" });
  const { runs, events } = await taskWhen(scheduler, "ORCH-1", hasEnded);
  expect(runs).toMatchObject([
    { outcome: "failed", exitCode: 0, reason: expect.stringContaining("workspace is gone") },
  ]);
  expect(events.at(-1)).toMatchObject({ kind: "retried", detail: { outcome: "failed", attempt: 2 } });
  expect(said("settled")[0]).toMatchObject({ level: "warn", outcome: "failed" });
  await makeDue(scheduler);
  const { task } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(task.status).toBe("done");
});
