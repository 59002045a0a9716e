import { mkdir, readFile, rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { isAlive, readProcess } from "@orchestrator/shared/process/proc_table.ts";
import { describe, expect, test } from "vitest";
import { makeSite } from "../helpers/scheduler.ts";
import { startSchedulerProcess } from "../helpers/scheduler_process.ts";

describe("a second scheduler on a database", () => {
  test("exits 75 at once and names the holder, which goes on", async () => {
    const site = await makeSite();
    const first = await startSchedulerProcess(site);
    const url = await first.ready;
    const second = await startSchedulerProcess(site);
    expect(await second.exited).toEqual({ code: 75, signal: null });
    const said = second.lines.at(-1);
    expect(said).toMatchObject({ level: "fatal", msg: expect.stringContaining(`pid ${first.pid} on `) });
    const queue = (await (await fetch(`${url}/queue`)).json()) as { scheduler: { epoch: number } };
    expect(queue.scheduler.epoch).toBe(1);
  });

  test("is refused while the first is frozen, and follows at once when the first is killed", async () => {
    const site = await makeSite();
    const first = await startSchedulerProcess(site);
    await first.ready;
    process.kill(first.pid, "SIGSTOP");
    const second = await startSchedulerProcess(site);
    expect((await second.exited).code).toBe(75);
    await first.killHard();
    const third = await startSchedulerProcess(site);
    const url = await third.ready;
    const queue = (await (await fetch(`${url}/queue`)).json()) as {
      scheduler: { epoch: number; holder: { pid: number } };
    };
    expect(queue.scheduler).toMatchObject({ epoch: 2, holder: { pid: third.pid } });
  });

  test("is refused by whatever name it knows it: here by a link in another folder", async () => {
    const site = await makeSite();
    const first = await startSchedulerProcess(site);
    await first.ready;
    const elsewhere = join(site.folder, "elsewhere");
    await mkdir(elsewhere);
    await symlink(join(site.config.dataDir, "orchestrator.db"), join(elsewhere, "linked.db"));
    const second = await startSchedulerProcess(site, { ORCH_DB_URL: `file:${join(elsewhere, "linked.db")}` });
    expect((await second.exited).code).toBe(75);
    expect(second.lines.at(-1)).toMatchObject({ msg: expect.stringContaining(`pid ${first.pid} on `) });
  });

  test("ends the first with 75, where somebody has removed the lock file: of that the first has said what to do", async () => {
    const site = await makeSite();
    const first = await startSchedulerProcess(site);
    await first.ready;
    await rm(join(site.config.dataDir, "scheduler.lock.db"));
    const said = () => first.lines.find(({ msg }) => String(msg).includes("Restart this scheduler"));
    await expect.poll(said, { timeout: 20_000 }).toMatchObject({ level: "error" });
    const second = await startSchedulerProcess(site);
    await second.ready;
    expect(await first.exited).toEqual({ code: 75, signal: null });
  });

  test("is refused before it migrates: the database is not touched", async () => {
    const site = await makeSite();
    const first = await startSchedulerProcess(site);
    await first.ready;
    const bytes = () => readFile(site.config.dbUrl.slice("file:".length));
    const before = await bytes();
    const second = await startSchedulerProcess(site);
    await second.exited;
    expect((await bytes()).equals(before)).toBe(true);
  });
});

test("in standby a scheduler is alive and not ready, and takes over when the first is gone", async () => {
  const site = await makeSite();
  const first = await startSchedulerProcess(site);
  await first.ready;
  const standby = await startSchedulerProcess(site, { ORCH_STANDBY: "true" });
  await expect
    .poll(() => standby.lines.find((line) => String(line.msg).startsWith("in standby")), { timeout: 20_000 })
    .toBeDefined();
  const port = standby.lines.find((line) => line.msg === "listening")?.port;
  const statusOf = async (path: string) => (await fetch(`http://127.0.0.1:${port}${path}`)).status;
  expect([await statusOf("/healthz"), await statusOf("/readyz"), await statusOf("/tasks")]).toEqual([200, 503, 503]);
  await first.killHard();
  await standby.ready;
  expect([await statusOf("/readyz"), await statusOf("/tasks")]).toEqual([200, 200]);
});

test("SIGTERM ends the scheduler with 0, its lock free and nothing of it left", async () => {
  const site = await makeSite();
  const first = await startSchedulerProcess(site);
  await first.ready;
  const started = readProcess(first.pid)!.started;
  process.kill(first.pid, "SIGTERM");
  expect(await first.exited).toEqual({ code: 0, signal: null });
  expect(isAlive(first.pid, started)).toBe(false);
  const second = await startSchedulerProcess(site);
  await second.ready;
});
