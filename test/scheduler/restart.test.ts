import { mkdir, readdir, readFile, rename, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { isAlive, readProcess } from "@orchestrator/shared/process/proc_table.ts";
import { openReadOnly } from "@orchestrator/shared/storage/open.ts";
import { expect, test } from "vitest";
import { exitNotePath, hasExitNote } from "../../services/scheduler/exit_notes.ts";
import { HeldPoints } from "../helpers/held_points.ts";
import { insertTaskWithJob } from "../helpers/insert.ts";
import { makeSite, type Site, startTestScheduler } from "../helpers/scheduler.ts";
import { startSchedulerProcess } from "../helpers/scheduler_process.ts";
import { openTestStorage } from "../helpers/storage.ts";

const post = async (url: string, body: object): Promise<Response> =>
  fetch(`${url}/tasks`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });

test("a start requeues what was running before the reaper begins, with an empty registry, and claims only after that", async () => {
  const site = await makeSite();
  const path = site.config.dbUrl.slice("file:".length);
  await mkdir(site.config.dataDir, { recursive: true });
  const earlier = await openTestStorage({ path });
  const { job } = await insertTaskWithJob(earlier.storage, { workItemId: "ORCH-1" });
  await earlier.storage.write(async (tx) => {
    await tx.run(
      "INSERT INTO agent_runs (id, job_id, task_id, stage, agent, attempt, started_at) VALUES (5, ?, ?, 'analysis', 'analyst', 1, ?)",
      [job.id, job.taskId, tx.now],
    );
    await tx.run("UPDATE jobs SET status = 'running', run_id = 5 WHERE id = ?", [job.id]);
    await tx.run("UPDATE tasks SET lease_run_id = 5 WHERE id = ?", [job.taskId]);
  });
  await earlier.storage.close();

  const points = new HeldPoints();
  const states: unknown[] = [];
  const look = async (name: string) => {
    const reader = await openReadOnly(site.config.dbUrl, null);
    const [state] = await reader.query("SELECT j.status, r.outcome FROM jobs j, agent_runs r WHERE r.id = 5");
    await reader.close();
    states.push([name, state]);
  };
  const held = points.hold("claim.before");
  const scheduler = await startTestScheduler(site, {
    points: {
      reach: async (name) => {
        if (name.startsWith("start.")) await look(name);
        await points.reach(name);
      },
    },
  });
  await held.arrived;
  held.release();
  expect(states).toEqual([
    ["start.locked", { status: "running", outcome: null }],
    ["start.leftovers_ended", { status: "running", outcome: null }],
    ["start.requeue", { status: "running", outcome: null }],
    ["start.requeued", { status: "queued", outcome: "interrupted" }],
    ["start.reaper", { status: "queued", outcome: "interrupted" }],
    ["start.dispatcher", { status: "queued", outcome: "interrupted" }],
  ]);
  expect(points.reached.indexOf("claim.before")).toBeGreaterThan(points.reached.indexOf("start.reaper"));
  expect(scheduler.context.liveness.snapshot()).toEqual({});
  expect(scheduler.context.reaperCounters.sweeps).toBe(0);
  const events = await scheduler.context.storage.query("SELECT kind, detail ->> 'by' AS by FROM task_events");
  expect(events).toEqual([{ kind: "requeued", by: "restart" }]);
});

test("kill -9 while an agent runs: the next start ends the agent and what it started, and the item goes on to done without an attempt lost", async () => {
  const site = await makeSite();
  const pids = join(site.folder, "pids");
  await site.hook(
    "development",
    `[ -e ${pids} ] && exit 0
setsid sh -c 'trap "" TERM; while :; do sleep 1; done' &
echo "$PPID $!" >${pids}.part && mv ${pids}.part ${pids}
while :; do sleep 1; done
`,
  );
  const first = await startSchedulerProcess(site);
  const created = await post(await first.ready, { work_item_id: "ORCH-1", title: "t", repo: "shop" });
  expect(created.status).toBe(201);
  await expect.poll(() => readFile(pids, "utf8").catch(() => ""), { timeout: 20_000 }).not.toBe("");
  const left = (await readFile(pids, "utf8")).trim().split(" ").map(Number);
  const identified = left.map((pid) => ({ pid, started: readProcess(pid)!.started }));
  await first.killHard();
  expect(identified.map(({ pid, started }) => isAlive(pid, started))).toEqual([true, true]);

  const second = await startSchedulerProcess(site);
  const url = await second.ready;
  expect(identified.map(({ pid, started }) => isAlive(pid, started))).toEqual([false, false]);
  await expect
    .poll(async () => ((await (await fetch(`${url}/tasks/ORCH-1`)).json()) as { status: string }).status, {
      timeout: 25_000,
    })
    .toBe("done");
  const task = (await (await fetch(`${url}/tasks/ORCH-1`)).json()) as {
    jobs: { stage: string; attempt: number }[];
    runs: { stage: string; outcome: string }[];
  };
  expect(task.runs.filter((run) => run.stage === "development").map((run) => run.outcome)).toEqual([
    "interrupted",
    "succeeded",
  ]);
  expect(task.jobs.map((job) => job.attempt)).toEqual([1, 1, 1, 1, 1, 1, 1]);
});

/** An item whose first agent, run 1, has exited 0 while no scheduler lived; `starts` are the runs of its stage so far. */
const finishedUnseen = async () => {
  const site = await makeSite();
  const at = (name: string) => join(site.folder, name);
  await site.hook("analysis", `echo $ORCH_RUN_ID >>${at("starts")}\nwhile [ ! -e ${at("go")} ]; do sleep 0.01; done\n`);
  const starts = () => readFile(at("starts"), "utf8").catch(() => "");
  const scheduler = await startSchedulerProcess(site);
  await post(await scheduler.ready, { work_item_id: "ORCH-1", title: "t", repo: "shop" });
  await expect.poll(starts, { timeout: 20_000 }).toBe("1\n");
  await scheduler.killHard();
  await writeFile(at("go"), "");
  const note = exitNotePath(site.config.dataDir, 1);
  await expect.poll(() => hasExitNote(note), { timeout: 20_000 }).toBe(true);
  return { site, note, starts };
};

/** Starts a scheduler and waits until the item is done. @returns where it answers. */
const goOn = async (site: Site): Promise<string> => {
  const url = await (await startSchedulerProcess(site)).ready;
  await expect
    .poll(async () => ((await (await fetch(`${url}/tasks/ORCH-1`)).json()) as { status: string }).status, {
      timeout: 25_000,
    })
    .toBe("done");
  return url;
};

test("an agent that exits 0 while no scheduler lives is not run again: its job goes on from the finalizer", async () => {
  const { site, note, starts } = await finishedUnseen();
  const url = await goOn(site);
  expect(await starts()).toBe("1\n");
  const task = (await (await fetch(`${url}/tasks/ORCH-1`)).json()) as {
    runs: { stage: string; outcome: string; exit_code: number | null }[];
  };
  expect(task.runs.filter((run) => run.stage === "analysis")).toMatchObject([
    { outcome: "interrupted", exit_code: 0 },
    { outcome: "succeeded", exit_code: null },
  ]);
  expect(await hasExitNote(note)).toBe(false);
});

test("a noted exit 0 of before the machine's start is not believed: the work it speaks of may not have come to the disk", async () => {
  const { site, note, starts } = await finishedUnseen();
  await rename(dirname(note), join(site.config.dataDir, "exits", "00000000-0000-4000-8000-000000000000"));
  await goOn(site);
  expect(await starts()).toBe("1\n2\n");
  expect(await readdir(join(site.config.dataDir, "exits"))).toEqual([basename(dirname(note))]);
});

test("what was answered with 201 is in the file after a kill -9 while a hundred clients post", async () => {
  const site = await makeSite();
  const scheduler = await startSchedulerProcess(site, { ORCH_MAX_CONCURRENT_JOBS: "1" });
  const url = await scheduler.ready;
  const accepted: string[] = [];
  let posted = 0;
  const client = async () => {
    for (;;) {
      const id = `ORCH-${posted++}`;
      const response = await post(url, { work_item_id: id, title: "t", repo: "shop" }).catch(() => null);
      if (response?.status !== 201) return;
      accepted.push(id);
      if (accepted.length === 300) process.kill(scheduler.pid, "SIGKILL");
    }
  };
  await Promise.all(Array.from({ length: 100 }, client));
  await scheduler.exited;
  const reader = await openReadOnly(site.config.dbUrl, null);
  const rows = await reader.query<{ workItemId: string }>("SELECT work_item_id FROM tasks");
  await reader.close();
  const kept = new Set(rows.map((row) => row.workItemId));
  expect(accepted.length).toBeGreaterThanOrEqual(300);
  expect(accepted.filter((id) => !kept.has(id))).toEqual([]);
});
