import { systemClock } from "@orchestrator/shared/clock.ts";
import { Validator } from "@seriousme/openapi-schema-validator";
import { beforeAll, describe, expect, test } from "vitest";
import { createSchedulerApp } from "../../../services/scheduler/app.ts";
import { createStagerApp, type StagerAppDeps } from "../../../services/stager/app.ts";
import { ApiDocument, type Content, type OpenApi, type Operation } from "../../helpers/openapi_document.ts";
import { SseReader } from "../../helpers/sse.ts";
import { captureLog } from "../../shared/http/harness.ts";
import { fakeApi } from "../fake_api.ts";
import { badRequests } from "./bad_requests.ts";
import { openSite, type Site } from "./site.ts";

const { log } = captureLog();
const token = "the-token";
const schedulerApp = (apiToken: string | null) =>
  createSchedulerApp({
    ...{ api: fakeApi(), log, clock: systemClock, config: { apiToken }, stopping: new AbortController().signal },
  });
const stagerApp = createStagerApp({ config: { stagerToken: token }, clock: systemClock, log } as StagerAppDeps);

const read = async (app: { request: typeof stagerApp.request }): Promise<ApiDocument> => {
  const answer = await app.request("/openapi.json", { headers: { authorization: `Bearer ${token}` } });
  return new ApiDocument((await answer.json()) as OpenApi);
};

let scheduler: ApiDocument;
let stager: ApiDocument;
beforeAll(async () => {
  scheduler = await read(schedulerApp(token));
  stager = await read(stagerApp);
});

describe.each(["scheduler", "stager"])("the document of the %s", (service) => {
  const api = (): ApiDocument => (service === "scheduler" ? scheduler : stager);

  test("is valid OpenAPI 3.1", async () => {
    const validator = new Validator();
    const result = await validator.validate(structuredClone(api().document) as unknown as Record<string, unknown>);
    expect(result.errors ?? []).toEqual([]);
    expect([result.valid, validator.version]).toEqual([true, "3.1"]);
  });

  test("has an example of every body, answer and parameter of a path, and each is as its schema says", () => {
    for (const [name, operation] of api().operations()) {
      const [method, path] = name.split(" ") as [string, string];
      const at = ["paths", path, method.toLowerCase()];
      if (operation.requestBody) checkExamples(api(), operation.requestBody.content, [...at, "requestBody"]);
      for (const [status, { content }] of Object.entries(operation.responses)) {
        if (status !== "default") checkExamples(api(), content!, [...at, "responses", status]);
      }
      for (const parameter of operation.parameters ?? []) {
        if (parameter.in === "path") expect(parameter.example, `${name} ${parameter.name}`).toBeDefined();
      }
    }
  });

  test("has a code for each way in which a call may fail", () => {
    for (const [name, { responses }] of api().operations()) {
      const codes = Object.values(responses).flatMap(({ content }) =>
        Object.keys(content?.["application/problem+json"]?.examples ?? {}),
      );
      expect(new Set(codes).size, name).toBe(codes.length);
      expect(responses["default"]?.content, name).toHaveProperty(["application/problem+json"]);
    }
  });
});

const checkExamples = (api: ApiDocument, content: Content, at: string[]): void => {
  for (const [media, { example, examples }] of Object.entries(content)) {
    const values = example === undefined ? Object.values(examples ?? {}).map(({ value }) => value) : [example];
    expect(values.length, `${at} ${media}`).toBeGreaterThan(0);
    for (const value of values) {
      expect(api.faults(value, ...at, "content", media, "schema"), `${at} ${media}`).toEqual([]);
    }
  }
};

/** What must be there for a call to go well, and what stands for the ids of the examples. */
type Preparation = (site: Site) => Promise<unknown>;
const claimed: Preparation = async (site) => {
  await site.create("ORCH-115");
  const { run } = await site.claim();
  const log = await site.context.runLogs.open(1, { path: run.claim.run.logPath!, maxBytes: 10_000 });
  log.append("a line\n");
  await site.context.runLogs.close(1);
};
const PREPARED: Record<string, Preparation> = {
  "POST /tasks": async () => {},
  "POST /tasks/{task}/retry": (site) => site.createBlocked("ORCH-115"),
  "POST /tasks/{task}/approve": (site) => site.createWaiting("ORCH-115"),
  "POST /tasks/{task}/return": (site) => site.createBlocked("ORCH-115", { stage: "review" }),
};
const IDS: Record<string, unknown> = { id: 1 };

/** Sends what the document shows: its example of the path and of the body. */
const call = async (site: Site, name: string, { parameters = [], requestBody }: Operation): Promise<Response> => {
  const [method, path] = name.split(" ") as [string, string];
  const named = parameters.filter((parameter) => parameter.in === "path");
  const target = named.reduce((text, p) => text.replace(`{${p.name}}`, String(IDS[p.name] ?? p.example)), path);
  if (!requestBody) return site.app.request(target, { method });
  const [[media, { example }]] = Object.entries(requestBody.content) as [[string, { example: unknown }]];
  return site.app.request(target, { method, body: JSON.stringify(example), headers: { "content-type": media } });
};

const OPERATIONS = [
  ...["GET /events", "GET /healthz", "GET /jobs", "GET /jobs/{id}", "GET /openapi.json", "GET /queue", "GET /readyz"],
  ...["GET /runs/{id}", "GET /runs/{id}/log", "GET /tasks", "GET /tasks/{task}", "POST /queue/pause"],
  ...["POST /queue/resume", "POST /tasks", "POST /tasks/{task}/approve", "POST /tasks/{task}/cancel"],
  ...["POST /tasks/{task}/retry", "POST /tasks/{task}/return"],
];

test("these are the scheduler's operations", () => {
  expect(
    scheduler
      .operations()
      .map(([name]) => name)
      .sort(),
  ).toEqual(OPERATIONS);
});

describe("called as documented, the answer is as documented", () => {
  test.each(OPERATIONS.filter((name) => name !== "GET /events"))("%s", async (name) => {
    const site = await openSite();
    await (PREPARED[name] ?? claimed)(site);
    const answer = await call(site, name, scheduler.operation(name));
    expect([200, 201]).toContain(answer.status);
    expect(await scheduler.answerFaults(name, answer)).toEqual([]);
  });

  test("GET /events: each message's data is an Event", async () => {
    const site = await openSite();
    await site.createDone("ORCH-115");
    const answer = await site.app.request("/events", { headers: { "last-event-id": "0" } });
    expect(scheduler.operation("GET /events").responses["200"]!.content).toHaveProperty(["text/event-stream"]);
    const events = new SseReader(answer);
    for (const { data, event } of await events.take(6)) {
      expect(scheduler.faults(data, "components", "schemas", "Event")).toEqual([]);
      expect((data as { kind: string }).kind).toBe(event);
    }
    await events.leave();
  });

  test("GET /queue in the text format", async () => {
    const site = await openSite();
    const answer = await site.app.request("/queue?format=prometheus");
    expect(await scheduler.answerFaults("GET /queue", answer)).toEqual([]);
  });

  test("a body that need not be sent is not called required", () => {
    const required = scheduler.operations().filter(([, { requestBody }]) => requestBody?.required);
    expect(required.map(([name]) => name)).toEqual([
      ...["POST /tasks", "POST /tasks/{task}/approve", "POST /tasks/{task}/return"],
    ]);
  });
});

test("what goes wrong is answered as documented too", async () => {
  const site = await openSite();
  await site.create("ORCH-1");
  const names = scheduler.operations().map(([name]) => name);
  for (const [request, init] of badRequests) {
    const [method, path] = request.replace(/\?.*/, "").split(" ") as [string, string];
    const name = names.find((other) => matches(other, method, path));
    if (name === undefined) continue;
    const answer = await site.app.request(request.split(" ")[1]!, { method, ...init });
    if (!answer.headers.get("content-type")!.includes("problem")) continue;
    const { status } = answer;
    const documented = scheduler.operation(name).responses;
    // What the guard refuses is the same for all calls and documented once.
    if (status !== 403) expect(Object.keys(documented), `${request} ${status}`).toContain(String(status));
    expect(await scheduler.answerFaults(name, answer), request).toEqual([]);
  }
});

/** Whether an operation stands for a method and a path. */
const matches = (name: string, method: string, path: string): boolean => {
  const pattern = name.replace(/\{\w+\}/g, "[^/]+");
  return new RegExp(`^${pattern}$`).test(`${method} ${path}`);
};

test("with a token every call but the open ones is refused without it, as documented", async () => {
  const app = schedulerApp(token);
  for (const [name, { security }] of scheduler.operations()) {
    const [method, path] = name.split(" ") as [string, string];
    const answer = await app.request(path.replace(/\{\w+\}/, "1"), { method });
    if (security?.length === 0) {
      expect([200, 503], name).toContain(answer.status);
    } else {
      expect(answer.status, name).toBe(401);
      expect(answer.headers.get("www-authenticate"), name).toMatch(/^Bearer/);
      expect(await scheduler.answerFaults(name, answer), name).toEqual([]);
    }
  }
});
