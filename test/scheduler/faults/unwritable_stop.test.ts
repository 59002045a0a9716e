import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { exitNotePath, hasExitNote } from "../../../services/scheduler/exit_notes.ts";
import { startDatabaseServer } from "../../helpers/database_server.ts";
import { deferred } from "../../helpers/deferred.ts";
import { FakeClock } from "../../helpers/fake_clock.ts";
import { HeldPoints } from "../../helpers/held_points.ts";
import { lockDatabase } from "../../helpers/lock_database.ts";
import { onlyStages } from "../../helpers/on_the_way.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../../helpers/scheduler.ts";
import { startSchedulerProcess } from "../../helpers/scheduler_process.ts";
import { mountSmallDisk } from "../../helpers/small_disk.ts";
import { countAgents } from "./count_agents.ts";
import { keepLog } from "./kept_log.ts";

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";

/** Past what a finalizer may go on trying to write in a stop. */
const TOO_LONG_MS = 5_001;

test("SIGTERM ends a scheduler that cannot write an agent's exit, with 0; the next start goes on without that agent", async () => {
  const site = await makeSite();
  const [started, go] = [join(site.folder, "started"), join(site.folder, "go")];
  await site.hook("analysis", `echo $ORCH_RUN_ID >>${started}\nwhile [ ! -e ${go} ]; do sleep 0.01; done\n`);
  const starts = () => readFile(started, "utf8").catch(() => "");
  const first = await startSchedulerProcess(site);
  const url = await first.ready;
  await fetch(`${url}/tasks`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ work_item_id: "ORCH-1", title: "A title", repo: "shop" }),
  });
  await expect.poll(starts, { timeout: 20_000 }).toBe("1\n");
  const history = async (at: string) =>
    (await (await fetch(`${at}/tasks/ORCH-1`)).json()) as {
      events: { kind: string }[];
      runs: { stage: string; outcome: string; exit_code: number | null }[];
    };
  await expect
    .poll(async () => (await history(url)).events.some(({ kind }) => kind === "started"), { timeout: 20_000 })
    .toBe(true);
  const unlock = await lockDatabase(site.config.dbUrl);
  await writeFile(go, "");
  const note = exitNotePath(site.config.dataDir, 1);
  await expect.poll(() => hasExitNote(note), { timeout: 20_000 }).toBe(true);
  process.kill(first.pid, "SIGTERM");
  expect(await first.exited).toEqual({ code: 0, signal: null });
  const errors = first.lines.filter(({ level }) => level === "error");
  expect(errors).toContainEqual(
    expect.objectContaining({ runs: [1], msg: expect.stringContaining("left as they are, for the next start") }),
  );
  expect(errors.filter(({ msg }) => String(msg).includes("could not be settled"))).toEqual([]);
  expect(await hasExitNote(note)).toBe(true);

  await unlock();
  const second = await (await startSchedulerProcess(site)).ready;
  const ofAnalysis = async () => (await history(second)).runs.filter(({ stage }) => stage === "analysis");
  await expect.poll(ofAnalysis, { timeout: 25_000 }).toMatchObject([
    { outcome: "interrupted", exit_code: 0 },
    { outcome: "succeeded", exit_code: null },
  ]);
  expect(await starts()).toBe("1\n");
});

test("with the disk full a stop leaves the run that cannot be settled, and waits for the one that is still at work", async () => {
  const site = await makeSite();
  const folder = join(site.folder, "database");
  const disk = await mountSmallDisk(folder);
  const agents = await countAgents(site);
  const [points, clock] = [new HeldPoints(), new FakeClock()];
  const { log, said } = keepLog();
  const config = { dbUrl: `file:${join(folder, "orchestrator.db")}`, ...onlyStages(site, "analysis") };
  const scheduler = await startTestScheduler(site, { log, points, clock, config });
  const unsettled = points.hold("settle.before");
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await unsettled.arrived;
  const atWork = points.hold("gate.read");
  await postTask(scheduler, { workItemId: "ORCH-2" });
  await atWork.arrived;
  await disk.fill();
  unsettled.release();
  await expect.poll(() => said("the database cannot be used").length, { timeout: 20_000 }).toBeGreaterThan(0);

  const stopping = scheduler.stop();
  clock.advance(TOO_LONG_MS);
  await expect.poll(() => said("left as they are"), { timeout: 20_000 }).toMatchObject([{ level: "error", runs: [1] }]);
  const { activeRuns, liveness } = scheduler.context;
  await expect.poll(() => liveness.jobIds(), { timeout: 20_000 }).toEqual([2]);
  // Between the two a run's log is closed and its workspace seen to.
  await expect.poll(() => activeRuns.all().map((run) => run.claim.run.id), { timeout: 20_000 }).toEqual([2]);
  await disk.free();
  atWork.release();
  await stopping;
  expect(said("settled").map(({ run_id: runId, outcome }) => [runId, outcome])).toEqual([[2, "succeeded"]]);

  const second = await startTestScheduler(site, { config });
  for (const workItemId of ["ORCH-1", "ORCH-2"]) {
    const { task, jobs } = await taskWhen(second, workItemId, isOver);
    expect([task.status, jobs.map((job) => [job.status, job.attempt])]).toEqual(["done", [["done", 1]]]);
  }
  expect(await agents()).toBe(2);
});

test("with the database's server gone a stop leaves the run that cannot be settled, too", async () => {
  const site = await makeSite();
  const agents = await countAgents(site);
  const [points, clock] = [new HeldPoints(), new FakeClock()];
  const { log, said } = keepLog();
  const path = join(site.folder, "orchestrator.db");
  const server = await startDatabaseServer(path);
  const config = { leaseTtlMs: 600, ...onlyStages(site, "analysis") };
  const scheduler = await startTestScheduler(site, { log, points, clock, config: { ...config, dbUrl: server.url } });
  const held = points.hold("settle.before");
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await held.arrived;
  await server.stop();
  held.release();
  await expect.poll(() => said("the database cannot be used").length, { timeout: 20_000 }).toBeGreaterThan(0);
  const stopping = scheduler.stop();
  clock.advance(TOO_LONG_MS);
  await stopping;
  expect(said("left as they are")).toMatchObject([{ runs: [1] }]);

  const { url } = await startDatabaseServer(path);
  const second = await startTestScheduler(site, { config: { ...config, dbUrl: url } });
  const { task, jobs } = await taskWhen(second, "ORCH-1", isOver);
  expect([task.status, jobs.map((job) => [job.status, job.attempt])]).toEqual(["done", [["done", 1]]]);
  expect(await agents()).toBe(1);
});

test("a finalizer that waits for its repository has its turn, however long a stop waits for it", async () => {
  const site = await makeSite();
  const [points, clock] = [new HeldPoints(), new FakeClock()];
  const { log, said } = keepLog();
  const scheduler = await startTestScheduler(site, { log, points, clock, config: onlyStages(site, "analysis") });
  const { liveness, mirrors } = scheduler.context;
  const collecting = points.hold("collect.before");
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await collecting.arrived;
  const inUse = deferred();
  const user = mirrors.get("shop").exclusive(() => inUse.promise);
  const holding = vi.spyOn(liveness, "hold");
  const looking = vi.spyOn(liveness, "abortWriting");
  collecting.release();
  await expect.poll(() => holding.mock.calls.length, { timeout: 20_000 }).toBe(1);
  const stopping = scheduler.stop();
  clock.advance(TOO_LONG_MS);
  await expect.poll(() => looking.mock.results.at(-1)?.value, { timeout: 20_000 }).toEqual([]);
  inUse.resolve();
  await Promise.all([user, stopping]);
  expect(said("left as they are")).toEqual([]);
  expect(said("settled")).toMatchObject([{ run_id: 1, outcome: "succeeded" }]);
});
