import { healthRoutes, OPEN_PATHS } from "@orchestrator/shared/http/health.ts";
import { openapiRoute } from "@orchestrator/shared/http/openapi_route.ts";
import { expect, test } from "vitest";
import { ApiDocument, type OpenApi } from "../../helpers/openapi_document.ts";
import { createTestApp } from "./harness.ts";

/** A service whose token nobody here shows. */
const serviceWith = (reasons: () => Promise<string[]>) => {
  const { app } = createTestApp({ token: "the-token-of-the-service", openPaths: OPEN_PATHS });
  app.route("/", healthRoutes({ question: "Is there work?", exampleReason: "there is none", reasons }));
  return app;
};

test.each([
  [200, []],
  [503, ["the dispatcher is not running", "the database cannot be written"]],
])("/readyz is %i for the reasons %j", async (status, reasons) => {
  const answer = await serviceWith(async () => reasons).request("/readyz");
  expect([answer.status, await answer.json()]).toEqual([status, { ready: status === 200, reasons }]);
});

test("/healthz asks for no reasons", async () => {
  const app = serviceWith(() => Promise.reject(new Error("the database is locked")));
  const answer = await app.request("/healthz");
  expect([answer.status, await answer.json()]).toEqual([200, { status: "ok" }]);
  expect((await app.request("/readyz")).status).toBe(500);
});

test("both are documented as they are answered", async () => {
  let reasons: string[] = [];
  const app = serviceWith(async () => reasons);
  const self = { app, title: "t", description: "d", securitySchemes: {} };
  const answer = await openapiRoute(self).request("/openapi.json");
  const document = new ApiDocument((await answer.json()) as OpenApi);
  const ready = document.operation("GET /readyz");
  expect(ready).toMatchObject({ summary: "Is there work?", security: [] });
  expect(ready.responses["503"]!.content!["application/json"]!.example).toEqual({
    ready: false,
    reasons: ["there is none"],
  });
  for (const found of [[], ["there is none"]]) {
    reasons = found;
    for (const path of ["/healthz", "/readyz"]) {
      expect(await document.answerFaults(`GET ${path}`, await app.request(path)), path).toEqual([]);
    }
  }
});
