import { isoTime } from "@orchestrator/shared/clock.ts";
import { JOB_STATUSES, TASK_STATUSES } from "@orchestrator/shared/domain.ts";
import type { SqlValue } from "@orchestrator/shared/storage/connection.ts";
import { findEarlierRun } from "@orchestrator/shared/storage/find_earlier_run.ts";
import { listOpenProcesses, listRunning } from "@orchestrator/shared/storage/list_running.ts";
import { nextDue } from "@orchestrator/shared/storage/next_due.ts";
import { recordHead } from "@orchestrator/shared/storage/record_head.ts";
import { recordExited, recordStarted } from "@orchestrator/shared/storage/record_run_progress.ts";
import { describe, expect, test } from "vitest";
import { holdOf, ownRunOf } from "../../services/scheduler/run_context.ts";
import type { RunResult } from "../../services/scheduler/run_result.ts";
import { fillHistory } from "../bench/fill_history.ts";
import { recordSql, type Statement } from "../helpers/recorded_sql.ts";
import { openTestStorage } from "../helpers/storage.ts";
import { openSite, PASSED, type Site } from "./api/site.ts";

/** Indexes that hold what is under way and nothing of history: going through all of one costs what there is to do. */
const UNDER_WAY = /USING (COVERING )?INDEX (jobs_queued|jobs_due|jobs_queued_since|agent_runs_open)\b/;

/** Tables that have no history: what is paused, the one row of the lease, the rows of a statement's own argument. */
const SMALL = /^SCAN (queue_state|scheduler_lease|json_each)\b/;

/** A page of everything, newest first, ends after its rows. */
const PAGE_OF_ALL = /FROM (tasks|jobs) ORDER BY id DESC LIMIT \?$/;

/** The steps of a plan whose cost grows with history. */
const growing = (sql: string, plan: readonly string[]): string[] =>
  plan.filter((step) => {
    if (step.startsWith("SCAN")) return !SMALL.test(step) && !UNDER_WAY.test(step) && !PAGE_OF_ALL.test(sql);
    return step.includes("TEMP B-TREE") && !/queue_state|json_each/.test(sql);
  });

const planOf = async (site: Site, { sql, args }: Statement): Promise<string[]> => {
  const rows = await site.storage.query<{ detail: string }>(`EXPLAIN QUERY PLAN ${sql}`, args as SqlValue[]);
  return rows.map(({ detail }) => detail);
};

const ENDED = { kind: "ended", class: null, reason: "x", runsAgentAgain: true } as const;
const RESULTS: readonly RunResult[] = [
  PASSED,
  { kind: "ended", outcome: "failed", class: null, reason: "exit code 1", runsAgentAgain: true },
  { ...ENDED, outcome: "tool_error", class: "git_fetch" },
  { ...ENDED, outcome: "interrupted", class: "shutdown" },
  { kind: "needs_person", class: "foreign_commit", reason: "moved" },
  { kind: "deferred", class: "no_space", reason: "disk full" },
  { kind: "branch_moved", reason: "moved on" },
];

/** Everything that the API, the dispatcher, a monitor, the reaper and a start ask of the database. */
const useEverything = async (site: Site): Promise<void> => {
  const { app, storage } = site;
  const get = async (path: string): Promise<void> => {
    const response = await app.request(path);
    if (response.status !== 200) throw new Error(`GET ${path} answered ${response.status}: ${await response.text()}`);
    await response.arrayBuffer();
  };
  for (const result of RESULTS) {
    const name = `T-${result.kind}-${"outcome" in result ? result.outcome : ""}`;
    await site.create(name, { stage: result.kind === "deferred" ? "deploy-staging" : "review", priority: 9 });
    const { run } = await site.claim();
    const hold = holdOf(run);
    await storage.write((tx) => recordHead(tx, hold, "c0ffee"));
    await storage.write((tx) => recordStarted(tx, hold, { pid: 1, started: 1 }, {}));
    await storage.write((tx) => recordExited(tx, hold, { code: 0, signal: null }));
    await findEarlierRun(storage, hold.taskId, hold.runId);
    await ownRunOf(storage, hold.taskId)(hold.runId);
    await listRunning(storage);
    await listOpenProcesses(storage);
    await site.settle(run, result);
    await site.post(`/tasks/${name}/cancel`);
  }
  const blocked = await site.createBlocked("BLOCKED");
  await site.post(`/tasks/${blocked.id}/retry`, { note: "again" });
  await site.createBlocked("BLOCKED-2");
  await site.post("/tasks/BLOCKED-2/return", { to: "analysis", reason: "x" });
  await site.createDone("DONE");
  await site.createWaiting("WAITING");
  await site.create("RUNNING", { priority: 10 });
  const { run } = await site.claim();
  await site.post("/tasks/RUNNING/cancel");
  await site.post("/tasks", { work_item_id: "DONE", title: "again", repo: "shop" });
  await site.post("/tasks", { work_item_id: "OTHER", title: "again", repo: "shop", branch: "work/WAITING" });
  await site.post("/queue/pause", { agent: "analyst", reason: "x" });
  await site.post("/queue/resume", { agent: "analyst" });
  await nextDue(storage, isoTime(Date.now()));

  for (const cursor of ["", `&cursor=${await cursorOf(site)}`]) {
    await get(`/tasks?limit=2${cursor}`);
    await get(`/tasks?limit=2&stage=done${cursor}`);
    for (const status of TASK_STATUSES) {
      await get(`/tasks?limit=2&status=${status}${cursor}`);
      await get(`/tasks?limit=2&status=${status}&stage=review${cursor}`);
    }
    await get(`/jobs?limit=2${cursor}`);
    await get(`/jobs?limit=2&task_id=1${cursor}`);
    for (const status of JOB_STATUSES) {
      await get(`/jobs?limit=2&status=${status}${cursor}`);
      await get(`/jobs?limit=2&status=${status}&task_id=1${cursor}`);
    }
  }
  for (const path of ["/tasks/1", "/tasks/DONE", "/jobs/1", `/runs/${run.claim.run.id}`]) await get(path);
  for (const path of ["/queue", "/queue?format=prometheus", "/readyz"]) await get(path);
  await site.api.events.lastId();
  await site.api.events.after(0, 10);
};

const cursorOf = async ({ app }: Site): Promise<string> =>
  ((await (await app.request("/tasks?limit=1")).json()) as { next_cursor: string }).next_cursor;

describe("what is asked of the database", () => {
  test("never goes through a table of history", async () => {
    const site = await openSite();
    const statements = recordSql();
    await useEverything(site);
    const distinct = new Map(
      statements.filter(({ sql }) => /^\s*(SELECT|INSERT|UPDATE|DELETE)/.test(sql)).map((one) => [one.sql, one]),
    );
    const found: Record<string, string[]> = {};
    for (const [sql, statement] of distinct) {
      const steps = growing(sql, await planOf(site, statement));
      if (steps.length > 0) found[sql] = steps;
    }
    expect(found).toEqual({});
    // So many there are; with fewer, something above no longer does what it says.
    expect(distinct.size).toBeGreaterThan(45);
  });

  test("of a page uses all that the page is filtered by", async () => {
    const site = await openSite();
    const statements = recordSql();
    await site.app.request("/tasks?status=done&stage=review");
    await site.app.request("/jobs?status=done&task_id=1");
    await site.app.request("/jobs?status=done");
    const plans = await Promise.all([...statements].map((one) => planOf(site, one)));
    expect(plans).toEqual([
      ["SEARCH tasks USING INDEX tasks_by_stage_and_status (stage=? AND status=?)"],
      ["SEARCH jobs USING INDEX jobs_by_task (task_id=?)"],
      ["SEARCH jobs USING INDEX jobs_by_status (status=?)"],
    ]);
  });

  test("of the runs that may have left something is read from the newest on, and ends at the first that counts", async () => {
    const site = await openSite();
    await site.create("ORCH-1");
    const { run } = await site.claim();
    const { taskId, runId } = holdOf(run);
    await site.storage.write((tx) => recordStarted(tx, holdOf(run), { pid: 1, started: 1 }, {}));
    const statements = recordSql();
    await findEarlierRun(site.storage, taskId, runId + 1);
    const plans = await Promise.all([...statements].map((one) => planOf(site, one)));
    expect(plans).toEqual([
      ["SEARCH agent_runs USING INDEX agent_runs_by_task (task_id=? AND id<?)"],
      ["SEARCH agent_runs USING INDEX agent_runs_by_task (task_id=? AND id>? AND id<?)"],
    ]);
  });

  test("of the queue is read in its order, without going through it", async () => {
    const site = await openSite();
    await site.create("ORCH-1");
    const statements = recordSql();
    await site.claim();
    await nextDue(site.storage, isoTime(Date.now()));
    await site.api.queueView();
    const ofQueue = statements.filter(({ sql }) => sql.includes("'queued'") && sql.startsWith("SELECT"));
    const plans = await Promise.all(ofQueue.map((one) => planOf(site, one)));
    expect(plans.map(([step]) => step)).toEqual([
      "SCAN j USING INDEX jobs_queued",
      "SEARCH jobs USING COVERING INDEX jobs_due (available_at>?)",
      "SEARCH jobs USING COVERING INDEX jobs_queued_since",
    ]);
  });
});

test("the number of statements is the same whatever history there is, and small", async () => {
  const statements = recordSql();
  const countIn = async (history: number): Promise<Record<string, number>> => {
    const site = await openSite();
    for (let n = 0; n < history; n++) await site.create(`OLD-${n}`);
    await site.storage.write(async (tx) => {
      await tx.run("UPDATE tasks SET status = 'done', stage = 'done'");
      await tx.run("UPDATE jobs SET status = 'done'");
    });
    const count = async (work: () => Promise<unknown>): Promise<number> => {
      statements.length = 0;
      await work();
      return statements.length;
    };
    const read = (path: string) => count(async () => (await site.app.request(path)).arrayBuffer());
    const post = async (name: string) => site.post("/tasks", { work_item_id: name, title: "t", repo: "shop" });
    const counts: Record<string, number> = { "one post": await count(() => post("NEW")) };
    for (const path of ["/queue", "/queue?format=prometheus", "/tasks", "/jobs"]) counts[path] = await read(path);
    counts["claim"] = await count(() => site.claim());
    const run = site.context.activeRuns.all()[0]!;
    counts["settle"] = await count(() => site.settle(run, PASSED));
    const many = Array.from({ length: 100 }, (_, n) => `AT-ONCE-${n}`);
    counts["a hundred posts"] = await count(() => Promise.all(many.map(post)));
    return counts;
  };
  const { "a hundred posts": posts = 0, ...counts } = await countIn(200);
  const { "a hundred posts": _, ...empty } = await countIn(0);
  expect(counts).toEqual(empty);
  expect(counts).toMatchObject({ "/queue": 2, "/queue?format=prometheus": 2, "/tasks": 1, "/jobs": 1, "one post": 4 });
  // The fence, the tasks, their events and their jobs, once for all that came together; a few may come a moment later.
  expect(posts).toBeLessThanOrEqual(20);
});

test("even a careful look is quick beside fifty thousand finished jobs", async () => {
  const site = await openSite({ path: await filledDatabase(50_000) });
  const quickest = async (work: () => Promise<unknown>): Promise<number> => {
    const times: number[] = [];
    for (let n = 0; n < 20; n++) {
      const began = performance.now();
      await work();
      times.push(performance.now() - began);
    }
    return Math.min(...times);
  };
  const slow: Record<string, number> = {};
  const paths = [
    "/queue",
    "/queue?format=prometheus",
    "/tasks?status=active&stage=done",
    "/jobs?status=done&task_id=5",
  ];
  for (const path of paths) {
    const ms = await quickest(async () => (await site.app.request(path)).arrayBuffer());
    // A look through the history takes ten times as long.
    if (ms > 15) slow[path] = ms;
  }
  expect(slow).toEqual({});
  expect(site.storage.tally.jobs()).toMatchObject({ done: 43_750, failed: 6250 });
});

const filledDatabase = async (jobs: number): Promise<string> => {
  const { storage, path } = await openTestStorage();
  await storage.close();
  await fillHistory(path, jobs);
  return path;
};
