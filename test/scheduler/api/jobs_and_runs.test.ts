import { JOB_STATUSES } from "@orchestrator/shared/domain.ts";
import { expect, test } from "vitest";
import { statusAndCode } from "../../shared/http/harness.ts";
import { openSite, PASSED, type Site } from "./site.ts";

interface Page {
  jobs?: { id: number }[];
  tasks?: { id: number }[];
  next_cursor: string | null;
}

const get = async ({ app }: Pick<Site, "app">, path: string): Promise<Page> => {
  const answer = await app.request(path);
  expect(answer.status).toBe(200);
  return (await answer.json()) as Page;
};

/** The ids of each page, until there is no cursor; `between` is done after each page. */
const pages = async (site: Site, path: string, between: (page: number) => Promise<unknown> = async () => {}) => {
  const found: number[][] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const page = await get(site, `${path}${cursor === "" ? "" : `&cursor=${cursor}`}`);
    found.push((page.jobs ?? page.tasks)!.map(({ id }) => id));
    cursor = page.next_cursor;
    await between(found.length);
  }
  return found;
};

test("jobs are listed newest first, as rows of the table", async () => {
  const site = await openSite();
  await site.create("ORCH-1");
  await site.create("ORCH-2", { stage: "development", priority: 3 });
  const { jobs, next_cursor } = await get(site, "/jobs");
  expect(next_cursor).toBe(null);
  expect(jobs).toMatchObject([
    { id: 2, task_id: 2, stage: "development", agent: "developer", status: "queued", priority: 3, attempt: 1 },
    { id: 1, task_id: 1, stage: "analysis", agent: "analyst", max_attempts: 3, run_id: null },
  ]);
});

test("jobs are filtered by status and task", async () => {
  const site = await openSite();
  await site.create("ORCH-1");
  await site.create("ORCH-2");
  await site.settle((await site.claim()).run, PASSED);
  await site.claim();
  await site.post("/tasks/ORCH-1/cancel");
  const found: Record<string, number[]> = {};
  for (const status of JOB_STATUSES)
    found[status] = (await get(site, `/jobs?status=${status}`)).jobs!.map(({ id }) => id);
  expect(found).toEqual({ queued: [], running: [2], done: [1], failed: [], cancelled: [3] });
  expect((await get(site, "/jobs?task_id=1")).jobs!.map(({ id }) => id)).toEqual([3, 1]);
  expect((await get(site, "/jobs?task_id=1&status=done")).jobs!.map(({ id }) => id)).toEqual([1]);
  expect((await get(site, "/jobs?task_id=99")).jobs).toEqual([]);
});

test.each(["/jobs", "/tasks"])("the pages of %s hold every row once, while rows come in", async (path) => {
  const site = await openSite();
  for (let n = 1; n <= 7; n++) await site.create(`ORCH-${n}`);
  let more = 100;
  const found = await pages(site, `${path}?limit=3`, async () => {
    await site.create(`ORCH-${more++}`);
    await site.create(`ORCH-${more++}`);
  });
  expect(found).toEqual([[7, 6, 5], [4, 3, 2], [1]]);
});

test.each(["/jobs", "/tasks"])("the last page of %s has no cursor, also where it is full", async (path) => {
  const site = await openSite();
  for (let n = 1; n <= 4; n++) await site.create(`ORCH-${n}`);
  expect(await pages(site, `${path}?limit=2`)).toEqual([
    [4, 3],
    [2, 1],
  ]);
});

test("a filtered list keeps its place while rows leave it", async () => {
  const site = await openSite();
  for (let n = 1; n <= 5; n++) await site.create(`ORCH-${n}`);
  const found = await pages(site, "/jobs?status=queued&limit=2", async (page) => {
    if (page === 1) for (const n of [4, 3]) await site.post(`/tasks/ORCH-${n}/cancel`);
  });
  expect(found).toEqual([
    [5, 4],
    [2, 1],
  ]);
});

test("one job comes with its runs, oldest first", async () => {
  const site = await openSite();
  await site.create("ORCH-1");
  const failed = {
    kind: "ended",
    outcome: "failed",
    class: null,
    reason: "exit code 1",
    runsAgentAgain: true,
  } as const;
  await site.settle((await site.claim()).run, failed);
  await site.storage.write((tx) => tx.run("UPDATE jobs SET available_at = created_at"));
  await site.claim();
  const answer = await site.app.request("/jobs/1");
  expect(await answer.json()).toMatchObject({
    ...{ id: 1, status: "running", attempt: 2, run_id: 2 },
    runs: [
      { id: 1, job_id: 1, attempt: 1, outcome: "failed", reason: "exit code 1" },
      { id: 2, job_id: 1, attempt: 2, outcome: null },
    ],
  });
});

test("one run", async () => {
  const site = await openSite();
  await site.create("ORCH-1");
  await site.claim();
  const answer = await site.app.request("/runs/1");
  expect(await answer.json()).toMatchObject({
    id: 1,
    job_id: 1,
    task_id: 1,
    stage: "analysis",
    pid: null,
    outcome: null,
  });
});

test.each(["/jobs/7", "/jobs/0", "/jobs/x", "/jobs/ORCH-1", "/jobs/-1", "/jobs/99999999999999999999", "/jobs/%00"])(
  "%s is 404",
  async (path) => {
    const { app } = await openSite();
    expect(await statusAndCode(await app.request(path))).toEqual([404, "not_found"]);
    expect(await statusAndCode(await app.request(path.replace("jobs", "runs")))).toEqual([404, "not_found"]);
    expect(await statusAndCode(await app.request(`${path.replace("jobs", "runs")}/log`))).toEqual([404, "not_found"]);
  },
);
