import { systemClock } from "@orchestrator/shared/clock.ts";
import { encodeCursor } from "@orchestrator/shared/http/cursor.ts";
import type { NewTask } from "@orchestrator/shared/schemas/new_task.ts";
import { queueSchema } from "@orchestrator/shared/schemas/queue.ts";
import type { TaskKey } from "@orchestrator/shared/storage/read_task.ts";
import * as v from "valibot";
import { describe, expect, test } from "vitest";
import { createSchedulerApp } from "../../services/scheduler/app.ts";
import type { CreateTaskResult, SchedulerApi, TaskQuery } from "../../services/scheduler/scheduler_api.ts";
import { captureLog, postJson, problemOf, statusAndCode } from "../shared/http/harness.ts";
import { aJob, anEvent, aQueueView, aRun, aTask, fakeApi } from "./fake_api.ts";

const appWith = (api: Partial<SchedulerApi> = {}, apiToken: string | null = null) =>
  createSchedulerApp({
    api: fakeApi(api),
    config: { apiToken },
    log: captureLog().log,
    clock: systemClock,
    stopping: new AbortController().signal,
  });

const MINIMAL = { work_item_id: "ORCH-115", title: "A title", repo: "shop" };

/** What the scheduler was asked to create. */
const created = async (body: unknown): Promise<NewTask> => {
  const inputs: NewTask[] = [];
  const app = appWith({
    createTask: async (input) => {
      inputs.push(input);
      return { kind: "created", task: aTask() };
    },
  });
  const answer = await app.request("/tasks", postJson(body));
  if (answer.status !== 201) throw new Error(`${answer.status}: ${await answer.text()}`);
  return inputs[0]!;
};

const refusal = async (body: unknown) => {
  const app = appWith({
    createTask: async () => {
      throw new Error("invalid input reached the scheduler");
    },
  });
  return problemOf(await app.request("/tasks", postJson(body)));
};

describe("POST /tasks", () => {
  test("answers 201 with the task and where it is", async () => {
    const answer = await appWith({ createTask: async () => ({ kind: "created", task: aTask({ id: 42 }) }) }).request(
      "/tasks",
      postJson(MINIMAL),
    );
    expect(answer.status).toBe(201);
    expect(answer.headers.get("location")).toBe("/tasks/42");
    expect(await answer.json()).toEqual({
      id: 42,
      work_item_id: "ORCH-115",
      title: "A title",
      description: "",
      repo: "shop",
      branch: "work/ORCH-115",
      base_branch: "main",
      head: null,
      stage: "analysis",
      status: "active",
      priority: 0,
      returns: 0,
      lease_run_id: null,
      blocked_reason: null,
      created_at: "2025-06-01T12:00:00.000Z",
      updated_at: "2025-06-01T12:00:00.000Z",
    });
  });

  test("hands the scheduler the input with its defaults", async () => {
    expect(await created(MINIMAL)).toEqual({
      workItemId: "ORCH-115",
      title: "A title",
      repo: "shop",
      description: "",
      priority: 0,
    });
  });

  test("hands it all that was given", async () => {
    const all = {
      ...MINIMAL,
      description: "Line one\n\tline two: ✓",
      branch: "feature/x",
      base_branch: "release/1",
      priority: -5,
      stage: "development",
    };
    expect(await created(all)).toEqual({
      workItemId: "ORCH-115",
      title: "A title",
      repo: "shop",
      description: "Line one\n\tline two: ✓",
      branch: "feature/x",
      baseBranch: "release/1",
      priority: -5,
      stage: "development",
    });
  });

  test.each<[field: string, value: unknown]>([
    ["work_item_id", "a"],
    ["work_item_id", `A${"b".repeat(63)}`],
    ["work_item_id", "A.b_c-9"],
    ["work_item_id", "A-." + "x"],
    ["title", "x".repeat(500)],
    ["title", " x "],
    ["title", "日本語 🚀"],
    ["description", "x".repeat(100_000)],
    ["description", ""],
    ["branch", "a/b.c"],
    ["branch", "ä".repeat(120)],
    ["priority", -1000],
    ["priority", 1000],
    ["stage", "deploy-staging"],
  ])("%s may be %j", async (field, value) => {
    expect(Object.values(await created({ ...MINIMAL, [field]: value }))).toContain(value);
  });

  test.each<[field: string, value: unknown, message: string | RegExp]>([
    ["work_item_id", undefined, "is required"],
    ["work_item_id", null, "must be of type string"],
    ["work_item_id", 115, "must be of type string"],
    ["work_item_id", "", /must match/],
    ["work_item_id", "115", /must match/],
    ["work_item_id", "-a", /must match/],
    ["work_item_id", ".a", /must match/],
    ["work_item_id", "a b", /must match/],
    ["work_item_id", "a/b", /must match/],
    ["work_item_id", "a\n", /must match/],
    ["work_item_id", "ä", /must match/],
    ["work_item_id", `A${"b".repeat(64)}`, /must match/],
    ["work_item_id", "a..b", "must not hold '..'"],
    ["work_item_id", "a.", "must not end in '.' or '.lock'"],
    ["work_item_id", "a.lock", "must not end in '.' or '.lock'"],
    ["title", undefined, "is required"],
    ["title", "", "must not be blank"],
    ["title", " \n\t", "must not be blank"],
    ["title", "x".repeat(501), "must be at most 500 characters long"],
    ["title", "a\u0000b", /control characters/],
    ["title", "a\u001b[31mb", /control characters/],
    ["title", "a\rb", /control characters/],
    ["title", "a\u007fb", /control characters/],
    ["title", ["x"], "must be of type string"],
    ["description", "x".repeat(100_001), "must be at most 100000 characters long"],
    ["description", "a\u0000b", /control characters/],
    ["description", null, "must be of type string"],
    ["repo", undefined, "is required"],
    ["repo", "", "must not be empty"],
    ["repo", "x".repeat(101), /at most 100/],
    ["branch", "", /check-ref-format/],
    ["branch", "-x", /check-ref-format/],
    ["branch", "a..b", /check-ref-format/],
    ["branch", "a b", /check-ref-format/],
    ["branch", "HEAD", /check-ref-format/],
    ["branch", "@{-1}", /check-ref-format/],
    ["branch", "x".repeat(241), "must be at most 240 bytes long"],
    ["branch", null, "must be of type string"],
    ["base_branch", "a.lock", /check-ref-format/],
    ["priority", 1001, "must be at most 1000"],
    ["priority", -1001, "must be at least -1000"],
    ["priority", 0.5, "must be a whole number"],
    ["priority", "1", "must be of type number"],
    ["priority", null, "must be of type number"],
    ["stage", "", "must not be empty"],
    ["stage", 1, "must be of type string"],
    ["status", "done", "unknown field"],
    ["id", 1, "unknown field"],
    ["workItemId", "a", "unknown field"],
  ])("%s may not be %j", async (field, value, message) => {
    const problem = await refusal({ ...MINIMAL, [field]: value });
    expect([problem.status, problem.code]).toEqual([422, "invalid_input"]);
    expect(problem.errors).toContainEqual({
      path: field,
      message: typeof message === "string" ? message : expect.stringMatching(message),
    });
    expect(new Set(problem.errors!.map(({ path }) => path))).toEqual(new Set([field]));
  });

  test("half of a surrogate pair is refused: it cannot be kept as it is", async () => {
    const problem = await refusal(`{"work_item_id":"A","repo":"shop","title":"a\\ud800"}`);
    expect(problem.errors).toEqual([{ path: "title", message: "must be well-formed Unicode" }]);
  });

  test("all faults are named at once", async () => {
    const problem = await refusal({ work_item_id: "1", priority: 5000, more: true });
    expect(problem.errors!.map(({ path }) => path).sort()).toEqual([
      "more",
      "priority",
      "repo",
      "title",
      "work_item_id",
    ]);
  });

  test.each<[CreateTaskResult, number]>([
    [{ kind: "work_item_exists", detail: "ORCH-115 is task 7" }, 409],
    [{ kind: "branch_taken", detail: "ORCH-7 works on it" }, 409],
    [{ kind: "unknown_repo", detail: "configured are: shop" }, 422],
  ])("what the scheduler refuses is told: %j", async (result, status) => {
    const answer = await appWith({ createTask: async () => result }).request("/tasks", postJson(MINIMAL));
    const problem = await problemOf(answer);
    expect(problem).toMatchObject({ status, code: result.kind, detail: (result as { detail: string }).detail });
  });

  test("what only the configuration can refuse is told like any invalid input", async () => {
    const errors = [{ path: "stage", message: "must be one of: analysis, deploy" }];
    const answer = await appWith({ createTask: async () => ({ kind: "invalid", errors }) }).request(
      "/tasks",
      postJson({ ...MINIMAL, stage: "nope" }),
    );
    expect(await problemOf(answer)).toMatchObject({ status: 422, code: "invalid_input", errors });
  });

  test("what breaks behind it is 500 and says nothing", async () => {
    const api = { createTask: () => Promise.reject(new Error("SQLITE_FULL: /data/orchestrator.db")) };
    const problem = await problemOf(await appWith(api).request("/tasks", postJson(MINIMAL)));
    expect([problem.status, problem.code]).toEqual([500, "internal"]);
    expect(JSON.stringify(problem)).not.toMatch(/SQLITE|data/);
  });
});

describe("GET /tasks", () => {
  const ask = async (query: string) => {
    const asked: TaskQuery[] = [];
    const app = appWith({
      listTasks: async (taskQuery) => {
        asked.push(taskQuery);
        return { tasks: [aTask({ id: 9 }), aTask({ id: 8 })], nextCursor: 8 };
      },
    });
    return { asked, answer: await app.request(`/tasks${query}`) };
  };

  test.each<[string, TaskQuery]>([
    ["", { limit: 50 }],
    ["?limit=200", { limit: 200 }],
    ["?status=blocked&stage=review", { limit: 50, status: "blocked", stage: "review" }],
    [`?cursor=${encodeCursor(8)}&limit=1`, { limit: 1, cursor: 8 }],
  ])("%j asks for %j", async (query, expected) => {
    const { asked, answer } = await ask(query);
    expect(answer.status).toBe(200);
    expect(asked).toEqual([expected]);
  });

  test("answers with the page and the cursor of the next", async () => {
    const { answer } = await ask("");
    const body = (await answer.json()) as { tasks: { id: number; work_item_id: string }[]; next_cursor: string };
    expect(body.tasks.map(({ id }) => id)).toEqual([9, 8]);
    expect(body.tasks[0]!.work_item_id).toBe("ORCH-115");
    expect((await ask(`?cursor=${body.next_cursor}`)).asked).toEqual([{ limit: 50, cursor: 8 }]);
  });

  test("the last page has no cursor", async () => {
    expect(await (await appWith().request("/tasks")).json()).toEqual({ tasks: [], next_cursor: null });
  });

  test.each(["?status=gone", "?limit=0", "?limit=201", "?cursor=8", "?stage=", "?page=2", "?limit=1&limit=2"])(
    "%s is refused",
    async (query) => {
      const { asked, answer } = await ask(query);
      expect(await statusAndCode(answer)).toEqual([422, "invalid_input"]);
      expect(asked).toEqual([]);
    },
  );
});

describe("GET /tasks/{id or work_item_id}", () => {
  const ask = async (key: string) => {
    const asked: TaskKey[] = [];
    const app = appWith({
      findTask: async (key) => {
        asked.push(key);
        if ("id" in key && key.id === 404) return null;
        return { task: aTask(), jobs: [aJob()], runs: [aRun()], events: [anEvent()] };
      },
    });
    return { asked, answer: await app.request(`/tasks/${key}`) };
  };

  test.each<[string, TaskKey]>([
    ["1", { id: 1 }],
    ["9007199254740991", { id: 9_007_199_254_740_991 }],
    ["ORCH-115", { workItemId: "ORCH-115" }],
    ["a.b_c", { workItemId: "a.b_c" }],
  ])("%s is looked up", async (text, key) => {
    const { asked, answer } = await ask(text);
    expect([answer.status, asked]).toEqual([200, [key]]);
  });

  test("answers with the task, its jobs, runs and events", async () => {
    const { answer } = await ask("1");
    expect(await answer.json()).toMatchObject({
      id: 1,
      work_item_id: "ORCH-115",
      jobs: [{ id: 3, task_id: 1, max_attempts: 3, task_content: "" }],
      runs: [{ id: 5, job_id: 3, pid_started: 99, outcome: null }],
      events: [{ id: 7, job_id: 3, kind: "created", detail: { anyKey: "stays as it is" } }],
    });
  });

  test("no such task is 404", async () => {
    expect(await statusAndCode((await ask("404")).answer)).toEqual([404, "not_found"]);
  });

  test.each([
    "99999999999999999999",
    "1x",
    "-1",
    "1.5",
    "a..b",
    "a.lock",
    "a%2Fb",
    "%00",
    "a%0Ab",
    "ä",
    "%ff",
    `A${"b".repeat(64)}`,
  ])("%s can be no task's: 404 without a look", async (key) => {
    const { asked, answer } = await ask(key);
    expect(await statusAndCode(answer)).toEqual([404, "not_found"]);
    expect(asked).toEqual([]);
  });
});

describe("GET /queue", () => {
  test("answers what the scheduler shows, as its schema says", async () => {
    const answer = await appWith().request("/queue");
    const body = await answer.json();
    expect(answer.status).toBe(200);
    expect(body).toEqual(aQueueView());
    expect(v.parse(queueSchema, body)).toEqual(body);
  });

  test.each<[string, (view: ReturnType<typeof aQueueView>) => unknown]>([
    ["a job status that is not counted", ({ jobs: { failed: _, ...jobs }, ...view }) => ({ ...view, jobs })],
    ["a phase that there is not", (view) => ({ ...view, running: [{ ...view.running[0], phase: "resting" }] })],
    ["a pause of nothing", (view) => ({ ...view, paused: [{ ...view.paused[0], what: "agent:" }] })],
    ["a time that is none", (view) => ({ ...view, time: "yesterday" })],
    ["a count below zero", (view) => ({ ...view, staging_runner: { ...view.staging_runner, runs: -1 } })],
  ])("the schema refuses %s", (_, change) => {
    expect(v.is(queueSchema, change(aQueueView()))).toBe(false);
  });
});

describe("probes", () => {
  test("/healthz says that the process is alive, ready or not", async () => {
    const answer = await appWith({ readiness: async () => ["x"] }).request("/healthz");
    expect([answer.status, await answer.json()]).toEqual([200, { status: "ok" }]);
  });

  test.each([
    [200, { ready: true, reasons: [] }],
    [503, { ready: false, reasons: ["waiting for the scheduler lock", "database is read-only"] }],
  ])("/readyz is %i for %j", async (status, readiness) => {
    const answer = await appWith({ readiness: async () => readiness.reasons }).request("/readyz");
    expect([answer.status, await answer.json()]).toEqual([status, readiness]);
  });
});

describe("with a token", () => {
  const app = appWith({}, "the-token");

  test.each(["/queue", "/healthz", "/readyz"])("%s needs none", async (path) => {
    expect((await app.request(path)).status).toBe(200);
  });

  test.each(["/tasks", "/tasks/1", "/openapi.json", "/", "/nothing"])("%s needs it", async (path) => {
    expect(await statusAndCode(await app.request(path))).toEqual([401, "unauthorized"]);
  });

  test("a task is taken with it, and not from another site's page", async () => {
    const authorization = "Bearer the-token";
    expect((await app.request("/tasks", postJson(MINIMAL, { authorization }))).status).toBe(201);
    const foreign = await app.request("/tasks", postJson(MINIMAL, { authorization, origin: "http://evil.example" }));
    expect(await statusAndCode(foreign)).toEqual([403, "forbidden_origin"]);
  });
});

test.each([
  ["POST", "/queue", "GET, HEAD"],
  ["DELETE", "/tasks", "GET, POST, HEAD"],
  ["PUT", "/tasks/1", "GET, HEAD"],
])("%s %s is 405", async (method, path, allow) => {
  const answer = await appWith().request(path, { method });
  expect(answer.headers.get("allow")).toBe(allow);
  expect(await statusAndCode(answer)).toEqual([405, "method_not_allowed"]);
});
