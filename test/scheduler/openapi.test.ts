import { systemClock } from "@orchestrator/shared/clock.ts";
import { expect, test } from "vitest";
import { createSchedulerApp } from "../../services/scheduler/app.ts";
import { captureLog } from "../shared/http/harness.ts";
import { fakeApi } from "./fake_api.ts";

interface Operation {
  operationId: string;
  summary: string;
  security?: unknown[];
  parameters?: { in: string; name: string; schema: Record<string, unknown> }[];
  requestBody?: { required: boolean; content: Record<string, { schema: Record<string, unknown> }> };
  responses: Record<string, { description: string; content?: Record<string, { schema: Record<string, unknown> }> }>;
}

interface OpenApi {
  openapi: string;
  security: unknown[];
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Record<string, unknown>>; securitySchemes: Record<string, unknown> };
}

const read = async (apiToken: string | null = null): Promise<OpenApi> => {
  const app = createSchedulerApp({
    api: fakeApi(),
    config: { apiToken },
    log: captureLog().log,
    clock: systemClock,
    stopping: new AbortController().signal,
  });
  const headers: Record<string, string> = apiToken === null ? {} : { authorization: `Bearer ${apiToken}` };
  const answer = await app.request("/openapi.json", { headers });
  expect(answer.status).toBe(200);
  expect(answer.headers.get("content-type")).toMatch(/^application\/json/);
  return (await answer.json()) as OpenApi;
};

const operationsOf = (document: OpenApi): [name: string, operation: Operation][] =>
  Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): [string, Operation] => [`${method} ${path}`, operation]),
  );

/** Every value of the key, wherever it stands. */
const valuesOf = (key: string, value: unknown): unknown[] => {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => [...(name === key ? [inner] : []), ...valuesOf(key, inner)]);
};

test("documents every route, as OpenAPI 3.1", async () => {
  const document = await read();
  expect(document.openapi).toMatch(/^3\.1\./);
  expect(
    operationsOf(document)
      .map(([name]) => name)
      .sort(),
  ).toEqual([
    "get /events",
    "get /healthz",
    "get /jobs",
    "get /jobs/{id}",
    "get /openapi.json",
    "get /queue",
    "get /readyz",
    "get /runs/{id}",
    "get /runs/{id}/log",
    "get /tasks",
    "get /tasks/{task}",
    "post /queue/pause",
    "post /queue/resume",
    "post /tasks",
    "post /tasks/{task}/approve",
    "post /tasks/{task}/cancel",
    "post /tasks/{task}/retry",
    "post /tasks/{task}/return",
  ]);
});

test("every operation has a name of its own, a summary and answers", async () => {
  const operations = operationsOf(await read());
  expect(new Set(operations.map(([, { operationId }]) => operationId)).size).toBe(operations.length);
  for (const [name, { summary, responses }] of operations) {
    expect(summary, name).toMatch(/\w/);
    expect(Object.keys(responses).length, name).toBeGreaterThan(0);
    for (const { description } of Object.values(responses)) expect(description, name).toMatch(/\w/);
  }
});

test("every reference leads somewhere", async () => {
  const document = await read();
  const references = valuesOf("$ref", document) as string[];
  expect(references.length).toBeGreaterThan(5);
  for (const reference of references) {
    const name = /^#\/components\/schemas\/(\w+)$/.exec(reference)?.[1];
    expect(document.components.schemas, reference).toHaveProperty(name ?? "");
  }
});

test("POST /tasks is documented by the schema that validates it", async () => {
  const { requestBody, responses } = (await read()).paths["/tasks"]!["post"]!;
  const { schema } = requestBody!.content["application/json"]!;
  expect(schema).toMatchObject({
    type: "object",
    required: ["work_item_id", "title", "repo"],
    additionalProperties: false,
    properties: {
      title: { type: "string", maxLength: 500 },
      description: { type: "string", maxLength: 100_000, default: "" },
      priority: { type: "integer", minimum: -1000, maximum: 1000, default: 0 },
      branch: { type: "string", description: expect.stringContaining("check-ref-format") },
    },
  });
  expect(Object.keys(responses)).toEqual(["201", "400", "409", "413", "415", "422", "default"]);
  expect(responses["422"]!.description).toContain("unknown_repo");
  expect(responses["201"]!.content!["application/json"]!.schema).toEqual({ $ref: "#/components/schemas/Task" });
  expect(responses["409"]!.content!["application/problem+json"]!.schema).toEqual({
    $ref: "#/components/schemas/Problem",
  });
});

test("the parameters of GET /tasks are documented as what they mean", async () => {
  const { parameters } = (await read()).paths["/tasks"]!["get"]!;
  expect(parameters!.map(({ in: place, name, schema }) => [place, name, schema["type"]])).toEqual([
    ["query", "status", "string"],
    ["query", "stage", "string"],
    ["query", "limit", "integer"],
    ["query", "cursor", "string"],
  ]);
  expect(parameters![2]!.schema).toEqual({ type: "integer", minimum: 1, maximum: 200, default: 50 });
});

test("says where the token is asked for", async () => {
  const secured = await read("the-token");
  expect(secured.security).toEqual([{ bearer: [] }, { basic: [] }]);
  expect(Object.keys(secured.components.securitySchemes)).toEqual(["bearer", "basic"]);
  const open = operationsOf(secured).filter(([, { security }]) => security?.length === 0);
  expect(open.map(([name]) => name).sort()).toEqual(["get /healthz", "get /queue", "get /readyz"]);
  expect((await read(null)).security).toEqual([]);
});
