import type { Hono } from "hono";
import { beforeAll, describe, expect, test } from "vitest";
import { createSchedulerApp } from "../../services/scheduler/app.ts";
import { createStagerApp } from "../../services/stager/app.ts";
import { RunCounters } from "../../services/stager/counters.ts";
import { FakeClock } from "../helpers/fake_clock.ts";
import { fakeApi } from "../scheduler/fake_api.ts";
import { captureLog, problemOf } from "../shared/http/harness.ts";
import { PROMETHEUS_ACCEPTS } from "./prometheus.ts";

const TOKEN = "a-token-that-nobody-has";
const clock = new FakeClock();
const { log } = captureLog();

const schedulerApp = () =>
  createSchedulerApp({
    ...{ api: fakeApi(), config: { apiToken: TOKEN }, log, clock },
    stopping: new AbortController().signal,
  });

const stagerApp = () =>
  createStagerApp({
    ...{ config: { stagerToken: TOKEN }, clock, log, counters: new RunCounters(), readJob: async () => null },
    runs: { list: () => [] } as unknown as Parameters<typeof createStagerApp>[0]["runs"],
    ...{ readInstanceId: async () => null, readiness: async () => [] },
  });

describe.each<[string, () => Pick<Hono, "request">, string]>([
  ["the scheduler", schedulerApp as never, "orchestrator_scheduler_epoch 3\n"],
  ["the stager", stagerApp as never, "stager_active_runs 0\n"],
])("GET /queue of %s, without a token", (_, create, line) => {
  let app: Pick<Hono, "request">;
  beforeAll(() => {
    app = create();
  });
  const get = (path: string, accept?: string) => app.request(path, { headers: accept === undefined ? {} : { accept } });

  test.each<[path: string, accept: string | undefined]>([
    ...PROMETHEUS_ACCEPTS.map((accept): [string, string] => ["/queue", accept]),
    ["/queue", "text/plain"],
    ["/queue", "text/plain;version=0.0.4"],
    ["/queue", "Text/*"],
    ["/queue", "application/json;q=0.1, text/plain"],
    ["/queue", "application/openmetrics-text"],
    ["/queue?format=prometheus", undefined],
    ["/queue?format=prometheus", "application/json"],
  ])("%s with Accept: %s is in the Prometheus text format", async (path, accept) => {
    const answer = await get(path, accept);
    expect(answer.status).toBe(200);
    expect(answer.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
    expect(answer.headers.get("vary")).toBe("accept");
    expect(answer.headers.get("cache-control")).toBe("no-store");
    expect(await answer.text()).toContain(line);
  });

  test.each<[path: string, accept: string | undefined]>([
    ["/queue", undefined],
    ["/queue", ""],
    ["/queue", "*/*"],
    ["/queue", "application/json"],
    ["/queue", "application/*"],
    ["/queue", "application/json, text/plain, */*"],
    ["/queue", "text/plain;q=0.5, application/json"],
    ["/queue", "text/plain;q=0"],
    ["/queue", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"],
    ["/queue", "image/png"],
    ["/queue", ";;,,/"],
    ["/queue?format=json", "text/plain"],
  ])("%s with Accept: %s is JSON", async (path, accept) => {
    const answer = await get(path, accept);
    expect(answer.status).toBe(200);
    expect(answer.headers.get("content-type")).toBe("application/json");
    expect(answer.headers.get("vary")).toBe("accept");
    expect(await answer.json()).toHaveProperty("staging_runner");
  });

  test.each(["/queue?format=xml", "/queue?format=", "/queue?format=json&format=prometheus", "/queue?pretty=1"])(
    "%s is refused",
    async (path) => {
      expect(await problemOf(await get(path, "text/plain"))).toMatchObject({ status: 422, code: "invalid_input" });
    },
  );

  test("HEAD says the same as GET", async () => {
    const answer = await app.request("/queue", { method: "HEAD", headers: { accept: "text/plain" } });
    expect(answer.status).toBe(200);
    expect(answer.headers.get("content-type")).toMatch(/^text\/plain; version=0\.0\.4/);
  });
});
