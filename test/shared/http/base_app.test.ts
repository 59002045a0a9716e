import { LibsqlError } from "@libsql/client";
import { PROBLEMS, type ProblemCode, problem, problemSchema } from "@orchestrator/shared/http/problem.ts";
import { FencedOffError } from "@orchestrator/shared/storage/check_epoch.ts";
import { StorageBusyError, StorageUnreachableError } from "@orchestrator/shared/storage/connection.ts";
import { Hono } from "hono";
import * as v from "valibot";
import { describe, expect, test } from "vitest";
import { createTestApp, problemOf, statusAndCode } from "./harness.ts";

const createThings = () => {
  const test = createTestApp();
  const { app } = test;
  app.get("/things", (c) => c.json({ id: c.var.requestId }));
  app.post("/things", (c) => c.text("made", 201));
  const routes = new Hono().delete("/things/:id", (c) => c.body(null, 204));
  app.route("/", routes);
  app.get("/fails", () => {
    throw new Error("SQLITE_CORRUPT at /data/orchestrator.db");
  });
  app.get("/locked", () => {
    throw new StorageBusyError(30_000, new Error("held by pid 7"));
  });
  app.get("/away", () => {
    throw new StorageUnreachableError(new TypeError("connect ECONNREFUSED db.internal:8080"));
  });
  for (const code of [
    "SQLITE_FULL",
    "SQLITE_READONLY_DBMOVED",
    "SQLITE_IOERR_WRITE",
    "SQLITE_CANTOPEN",
    "SQLITE_CORRUPT",
  ]) {
    app.get(`/${code}`, () => {
      throw new LibsqlError(`${code}: /data/orchestrator.db`, code);
    });
  }
  app.get("/no-answer", () => {
    throw new LibsqlError("HTTP status 502 from db.internal", "SERVER_ERROR");
  });
  app.get("/wrong-statement", () => {
    throw new LibsqlError("SQLITE_ERROR: no such column: secret", "SQLITE_ERROR");
  });
  app.get("/taken-over", () => {
    throw new FencedOffError(3, 4);
  });
  app.get("/fails-later", async () => Promise.reject(new TypeError("secret internals")));
  return test;
};

describe("what is not there", () => {
  test.each(["/", "/nothing", "/things/1/more", "/things/"])("%s is 404", async (path) => {
    expect(await statusAndCode(await createThings().app.request(path))).toEqual([404, "not_found"]);
  });

  test.each([
    ["DELETE", "/things", "GET, POST, HEAD"],
    ["OPTIONS", "/things", "GET, POST, HEAD"],
    ["PATCH", "/things", "GET, POST, HEAD"],
    ["GET", "/things/1", "DELETE"],
    ["POST", "/fails", "GET, HEAD"],
  ])("%s %s is 405, and Allow says what is", async (method, path, allow) => {
    const answer = await createThings().app.request(path, { method });
    expect(answer.headers.get("allow")).toBe(allow);
    expect(await statusAndCode(answer)).toEqual([405, "method_not_allowed"]);
  });

  test("HEAD is answered where GET is, without a body", async () => {
    const answer = await createThings().app.request("/things", { method: "HEAD" });
    expect([answer.status, await answer.text()]).toEqual([200, ""]);
  });
});

describe("an exception", () => {
  test.each([
    ["/locked", "unavailable", "locked by another program"],
    ["/away", "unavailable", "cannot be reached"],
    ["/SQLITE_FULL", "unavailable", "disk that the database is on is full"],
    ["/SQLITE_READONLY_DBMOVED", "unavailable", "read-only"],
    ["/SQLITE_IOERR_WRITE", "unavailable", "its disk fails or is away"],
    ["/SQLITE_CANTOPEN", "unavailable", "its disk fails or is away"],
    ["/SQLITE_CORRUPT", "unavailable", "restore a backup"],
    ["/no-answer", "unavailable", "did not answer as it should"],
    ["/taken-over", "fenced_off", "Another scheduler has taken over"],
  ])("at %s may be gone at the next try: 503, when to come again, nothing internal", async (path, code, detail) => {
    const answer = await createThings().app.request(path);
    expect(answer.headers.get("retry-after")).toBe("5");
    const body = await problemOf(answer);
    expect([body.status, body.code]).toEqual([503, code]);
    expect(body.detail).toContain(detail);
    expect(JSON.stringify(body)).not.toMatch(/pid|db\.internal|ECONNREFUSED|epoch|SQLITE|orchestrator\.db/);
  });

  test.each(["/fails", "/fails-later", "/wrong-statement"])(
    "at %s is 500: the log has it, the answer nothing of it",
    async (path) => {
      const { app, lines } = createThings();
      const answer = await app.request(path, { headers: { "x-request-id": "r-1" } });
      expect(answer.headers.get("x-request-id")).toBe("r-1");
      const body = await problemOf(answer);
      expect([body.status, body.code]).toEqual([500, "internal"]);
      expect(body.detail).toContain("r-1");
      expect(JSON.stringify(body)).not.toMatch(/SQLITE|data|secret|internals|Error:|at /);
      const logged = lines().find(({ level }) => level === "error");
      expect(logged).toMatchObject({
        request_id: "r-1",
        path,
        err: { stack: expect.stringContaining("base_app.test") },
      });
    },
  );
});

describe("the request id", () => {
  test("is the caller's where that is a short plain word", async () => {
    const { app, lines } = createThings();
    const answer = await app.request("/things", { headers: { "x-request-id": "trace-7.a_B" } });
    expect(answer.headers.get("x-request-id")).toBe("trace-7.a_B");
    expect(await answer.json()).toEqual({ id: "trace-7.a_B" });
    expect(lines()[0]).toMatchObject({ request_id: "trace-7.a_B" });
  });

  test.each([undefined, "", "a b", "x".repeat(65), 'a"b', "a,b", "../a"])(
    "is a new one instead of %j",
    async (given) => {
      const { app, lines } = createThings();
      const headers: Record<string, string> = given === undefined ? {} : { "x-request-id": given };
      const id = (await app.request("/things", { headers })).headers.get("x-request-id");
      expect(id).toMatch(/^[0-9a-f-]{36}$/);
      expect(lines()[0]).toMatchObject({ request_id: id });
    },
  );

  test("differs from request to request", async () => {
    const { app } = createThings();
    const ids = await Promise.all(
      [1, 2, 3].map(async () => (await app.request("/things")).headers.get("x-request-id")),
    );
    expect(new Set(ids).size).toBe(3);
  });

  test("stands on refusals too", async () => {
    const { app } = createThings();
    for (const path of ["/nothing", "http://evil.example/things"]) {
      expect((await app.request(path)).headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
    }
  });
});

describe("the log", () => {
  test.each([
    ["GET", "/things?token=abc", "debug", 200],
    ["POST", "/things", "info", 201],
    ["GET", "/nothing", "info", 404],
    ["GET", "/fails", "warn", 500],
  ])("says how %s %s ended at level %s, without the query", async (method, path, level, status) => {
    const { app, lines } = createThings();
    await app.request(path, { method });
    expect(lines().filter(({ msg }) => msg === "request")).toEqual([
      expect.objectContaining({
        level,
        method,
        path: path.split("?")[0],
        status,
        duration_ms: expect.any(Number),
        request_id: expect.any(String),
      }),
    ]);
    expect(JSON.stringify(lines())).not.toContain("abc");
  });
});

test("answers are not kept, sniffed or framed", async () => {
  const { headers } = await createThings().app.request("/things");
  expect(headers.get("cache-control")).toBe("no-store");
  expect(headers.get("x-content-type-options")).toBe("nosniff");
  expect(headers.get("x-frame-options")).toBe("DENY");
});

test("a handler's own cache-control stays", async () => {
  const { app } = createTestApp();
  app.get("/kept", (c) => c.text("x", 200, { "cache-control": "max-age=60" }));
  expect((await app.request("/kept")).headers.get("cache-control")).toBe("max-age=60");
});

test.each(Object.keys(PROBLEMS) as ProblemCode[])("the problem %s is what its schema says", async (code) => {
  const answer = problem(code, "why", { errors: [{ path: "a", message: "b" }], headers: { "x-more": "1" } });
  const body = await problemOf(answer);
  expect(v.parse(problemSchema, body)).toEqual(body);
  expect(body).toMatchObject({ status: PROBLEMS[code].status, title: PROBLEMS[code].title, detail: "why", code });
  expect(answer.headers.get("x-more")).toBe("1");
});
