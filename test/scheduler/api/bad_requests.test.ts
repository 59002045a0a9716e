import type { InputError } from "@orchestrator/shared/http/problem.ts";
import { describe, expect, test } from "vitest";
import { databaseHash } from "../../helpers/database_hash.ts";
import { problemOf } from "../../shared/http/harness.ts";
import { type BadRequest, badRequests } from "./bad_requests.ts";
import { openSite, PASSED, type Site } from "./site.ts";

/** Method and path, with `{id}` where one stands. */
function callOf(request: string): string {
  return request.replace(/\?.*/, "").replace(/(?<=\/)(?:\d+|ORCH-\d+)(?=$|\/)/, "{id}");
}

/** The rows by what they ask for, so that each kind has a test of its own. */
const groups = new Map<string, BadRequest[]>();
for (const row of badRequests) {
  const call = callOf(row[0]);
  const name = [403, 404, 405, 413].includes(row[2]) ? String(row[2]) : `${row[2]} ${call}`;
  groups.set(name, [...(groups.get(name) ?? []), row]);
}

/** The tasks that the rows speak of, by id. */
const siteWithTasks = async (): Promise<Site> => {
  const site = await openSite();
  const { id: active } = await site.create("ORCH-1");
  const { id: waiting } = await site.createWaiting("ORCH-2");
  // Claims go by priority: what is claimed on the way is not ORCH-1.
  const { id: blocked } = await site.createBlocked("ORCH-3", { stage: "review", priority: 9 });
  const { id: done } = await site.create("ORCH-4", { stage: "deploy", priority: 9 });
  await site.post(`/tasks/${done}/approve`, { stage: "deploy" });
  await site.settle((await site.claim()).run, PASSED);
  const { id: cancelled } = await site.create("ORCH-5");
  await site.post(`/tasks/${cancelled}/cancel`);
  expect([active, waiting, blocked, done, cancelled]).toEqual([1, 2, 3, 4, 5]);
  const tasks = await site.storage.query("SELECT status FROM tasks ORDER BY id");
  expect(tasks.map(({ status }) => status)).toEqual(["active", "waiting", "blocked", "done", "cancelled"]);
  return site;
};

describe("every bad request has its exact answer and changes nothing", () => {
  test.each([...groups])("%s", async (_, group) => {
    const site = await siteWithTasks();
    const before = await databaseHash(site.storage);
    for (const [request, init, status, code, errors = null] of group) {
      const [method, path] = request.split(" ") as [string, string];
      const answer = await site.app.request(path, { method, ...init });
      const problem = await problemOf(answer);
      const found = { status: problem.status, code: problem.code, errors: sorted(problem.errors) };
      expect.soft(found, request).toEqual({ status, code, errors: errors && sorted(toErrors(errors)) });
      expect.soft(answer.headers.get("x-request-id"), request).toMatch(/^[0-9a-f-]{36}$/);
      expect.soft(JSON.stringify(problem), request).not.toMatch(/node_modules|SQLITE|\.ts\b|\.db\b|\/tmp/);
      expect.soft(await databaseHash(site.storage), request).toBe(before);
    }
  });
});

test("there are enough of them, for every call that takes input", () => {
  expect(badRequests.length).toBeGreaterThanOrEqual(80);
  const asked = new Set(badRequests.map(([request]) => callOf(request)));
  for (const call of CALLS) expect(asked, call).toContain(call);
});

const CALLS = [
  ...["POST /tasks", "GET /tasks", "GET /tasks/{id}"],
  ...["cancel", "retry", "approve", "return"].map((action) => `POST /tasks/{id}/${action}`),
  ...["GET /jobs", "GET /jobs/{id}", "GET /runs/{id}", "GET /runs/{id}/log", "GET /events"],
  ...["GET /queue", "POST /queue/pause", "POST /queue/resume"],
];

const toErrors = (table: Record<string, string>): InputError[] =>
  Object.entries(table).map(([path, message]) => ({ path, message }));

const sorted = (errors: readonly InputError[] | undefined): string[] | null =>
  errors?.map(({ path, message }) => `${path}: ${message}`).sort() ?? null;
