import { rm } from "node:fs/promises";
import { isAlive, readProcess } from "@orchestrator/shared/process/proc_table.ts";
import { describe, expect, test } from "vitest";
import { lockFileOf } from "../../services/scheduler/lock_file.ts";
import { deferred } from "../helpers/deferred.ts";
import { git } from "../helpers/git.ts";
import { makeHangingPush } from "../helpers/hanging_push.ts";
import { lockDatabase } from "../helpers/lock_database.ts";
import { makeSite, postTask, startTestScheduler } from "../helpers/scheduler.ts";
import { startSchedulerProcess } from "../helpers/scheduler_process.ts";
import { takeOver } from "../helpers/take_over.ts";

const post = (url: string, workItemId: string): Promise<Response> =>
  fetch(`${url}/tasks`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ work_item_id: workItemId, title: "A title", repo: "shop" }),
  });

const FENCED_OFF = {
  code: "fenced_off",
  message: "this scheduler holds epoch 1, the database is at epoch 2: another scheduler has taken over",
};

/** One with nothing to do, and nothing that would find it out by itself. */
const idleScheduler = async () => {
  const site = await makeSite();
  const fencedOff = deferred<Error>();
  const scheduler = await startTestScheduler(site, { onFencedOff: fencedOff.resolve });
  await scheduler.stopClaiming();
  await takeOver(site);
  return { scheduler, fencedOff: fencedOff.promise };
};

describe("one that is idle finds out that another has taken over", () => {
  test("by a request that writes, which is refused", async () => {
    const { scheduler, fencedOff } = await idleScheduler();
    await expect(postTask(scheduler, { workItemId: "ORCH-1" })).rejects.toMatchObject(FENCED_OFF);
    expect(await fencedOff).toMatchObject(FENCED_OFF);
  });

  test("by being asked whether it is ready", async () => {
    const { scheduler, fencedOff } = await idleScheduler();
    expect(await scheduler.api.readiness()).toContain(FENCED_OFF.message);
    expect(await fencedOff).toMatchObject(FENCED_OFF);
  });
});

/** A process with an agent at work, which writes nothing until that ends. */
const busyProcess = async (env: Record<string, string> = {}) => {
  const site = await makeSite();
  await site.hook("analysis", "while :; do sleep 1; done\n");
  const scheduler = await startSchedulerProcess(site, env);
  const url = await scheduler.ready;
  await post(url, "ORCH-1");
  const agent = async () => {
    const { running } = (await (await fetch(`${url}/queue`)).json()) as { running: { pid: number | null }[] };
    const { events } = (await (await fetch(`${url}/tasks/ORCH-1`)).json()) as { events: { kind: string }[] };
    return events.some(({ kind }) => kind === "started") ? running[0]!.pid : null;
  };
  await expect.poll(agent, { timeout: 20_000 }).not.toBe(null);
  const pid = (await agent())!;
  return { site, scheduler, url, agent: { pid, started: readProcess(pid)!.started } };
};

test("its process answers the request that found it with 503, ends its agents and exits 75", async () => {
  const { site, scheduler, url, agent } = await busyProcess();
  await takeOver(site);
  const answer = await post(url, "ORCH-2");
  expect(answer.status).toBe(503);
  expect(await answer.json()).toMatchObject({ code: "fenced_off" });
  expect(await scheduler.exited).toEqual({ code: 75, signal: null });
  expect(isAlive(agent.pid, agent.started)).toBe(false);
});

test("a push that is under way is ended with it, and lands no more", async () => {
  const site = await makeSite();
  const push = await makeHangingPush(site);
  const scheduler = await startSchedulerProcess(site, { PATH: push.path });
  const url = await scheduler.ready;
  await post(url, "ORCH-1");
  const pid = await push.waits();
  const { started } = readProcess(pid)!;
  await takeOver(site);
  expect((await post(url, "ORCH-2")).status).toBe(503);
  expect(await scheduler.exited).toEqual({ code: 75, signal: null });
  expect(isAlive(pid, started)).toBe(false);
  expect(await git(site.remote, "for-each-ref", "--format=%(refname)")).toBe("refs/heads/main");
});

test("it ends by its deadline, whatever does not end before: here a write that waits for the database's lock", async () => {
  const { site, scheduler, agent } = await busyProcess({ ORCH_KILL_GRACE_MS: "100" });
  await takeOver(site);
  // So that the end of its agent cannot be recorded, for which it would wait.
  await lockDatabase(site.config.dbUrl);
  // It looks at the fence then, by reading.
  await rm(await lockFileOf(site.config.dbUrl));
  expect(await scheduler.exited).toEqual({ code: 75, signal: null });
  expect(scheduler.lines.at(-1)).toMatchObject({ level: "error", msg: expect.stringContaining("within 5100 ms") });
  expect(isAlive(agent.pid, agent.started)).toBe(false);
});
