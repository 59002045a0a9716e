import { systemClock } from "@orchestrator/shared/clock.ts";
import { createFront } from "@orchestrator/shared/http/front.ts";
import { createLog } from "@orchestrator/shared/log.ts";
import { Hono } from "hono";
import { describe, expect, test } from "vitest";

const TOKEN = "the-token-of-the-service";

const make = (token: string | null) => {
  const log = createLog({ level: "silent", service: "scheduler", secrets: [] });
  const front = createFront({ what: "scheduler", log, clock: systemClock, token });
  const ask = (path: string, init: RequestInit = {}) =>
    front.fetch(new Request(`http://localhost${path}`, { ...init, headers: { host: "localhost", ...init.headers } }));
  return { front, ask };
};

describe("before the app is there", () => {
  test("the service is alive and not ready, and says why", async () => {
    const { ask } = make(null);
    const alive = await ask("/healthz");
    expect([alive.status, await alive.json()]).toEqual([200, { status: "ok" }]);
    const ready = await ask("/readyz");
    expect([ready.status, await ready.json()]).toEqual([503, { ready: false, reasons: ["the scheduler is starting"] }]);
  });

  test("everything else is 503, whatever the path and method", async () => {
    const { ask } = make(null);
    for (const [method, path] of [
      ["GET", "/tasks"],
      ["POST", "/tasks"],
      ["GET", "/queue"],
      ["DELETE", "/nowhere"],
      ["POST", "/healthz"],
    ] as const) {
      const answer = await ask(path, { method });
      expect([method, path, answer.status]).toEqual([method, path, 503]);
      expect(answer.headers.get("content-type")).toBe("application/problem+json");
      expect(answer.headers.get("x-request-id")).toMatch(/\S/);
      expect(await answer.json()).toMatchObject({ code: "unavailable" });
    }
  });

  test("the guard stands already", async () => {
    const { ask } = make(TOKEN);
    expect((await ask("/tasks")).status).toBe(401);
    expect((await ask("/tasks", { headers: { authorization: `Bearer ${TOKEN}` } })).status).toBe(503);
    for (const path of ["/healthz", "/readyz", "/queue"]) expect((await ask(path)).status).not.toBe(401);
    const { ask: openly } = make(null);
    expect((await openly("/healthz", { headers: { host: "evil.example" } })).status).toBe(403);
  });
});

test("from its opening on the app answers", async () => {
  const { front, ask } = make(null);
  front.open(new Hono().get("/tasks", (c) => c.text("tasks")) as never);
  expect(await (await ask("/tasks")).text()).toBe("tasks");
  expect((await ask("/readyz")).status).toBe(404);
});
