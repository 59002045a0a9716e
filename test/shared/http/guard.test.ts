import { credential, isLoopbackHost, isSameOrigin } from "@orchestrator/shared/http/guard.ts";
import { describe, expect, test } from "vitest";
import { createTestApp, problemOf, statusAndCode } from "./harness.ts";

const TOKEN = "s3cret-token-of-this-service";

const appWith = (token: string | null) => {
  const { app, lines } = createTestApp({ token, openPaths: ["/queue", "/healthz", "/readyz"] });
  for (const path of ["/queue", "/healthz", "/readyz", "/tasks"]) app.get(path, (c) => c.text("read"));
  for (const path of ["/queue", "/tasks"]) app.post(path, (c) => c.text("changed"));
  return { app, lines };
};

const basic = (user: string, password: string): string =>
  `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;

describe.each([
  ["localhost", true],
  ["localhost:8080", true],
  ["LOCALHOST:8080", true],
  ["orchestrator.localhost:8080", true],
  ["127.0.0.1", true],
  ["127.0.0.1:8080", true],
  ["127.1.2.3:1", true],
  ["127.1", true],
  ["[::1]", true],
  ["[::1]:8080", true],
  ["[0:0:0:0:0:0:0:1]:8080", true],
  ["", false],
  ["evil.example", false],
  ["evil.example:8080", false],
  ["localhost.evil.example", false],
  ["127.0.0.1.evil.example", false],
  ["evillocalhost", false],
  ["localhost@evil.example", false],
  ["evil.example@localhost", false],
  ["localhost/evil.example", false],
  ["localhost#evil.example", false],
  ["localhost:port", false],
  ["localhost:99999", false],
  ["128.0.0.1", false],
  ["0.0.0.0:8080", false],
  ["10.127.0.1", false],
  ["[::2]", false],
  ["[::ffff:10.0.0.1]", false],
  ["::1", false],
  ["not a host", false],
])("isLoopbackHost %j", (host, expected) => {
  test(`is ${expected}`, () => expect(isLoopbackHost(host)).toBe(expected));
});

test.each([
  ["http://localhost:8080", "localhost:8080", true],
  ["http://localhost:8080", "LocalHost:8080", true],
  ["http://127.0.0.1:8080", "127.0.0.1:8080", true],
  ["http://[::1]:8080", "[::1]:8080", true],
  ["http://host.example", "host.example:80", true],
  ["https://host.example", "host.example:443", true],
  ["https://host.example", "host.example", true],
  ["http://localhost:8080", "127.0.0.1:8080", false],
  ["http://localhost:3000", "localhost:8080", false],
  ["http://localhost", "localhost:8080", false],
  ["https://host.example", "host.example:80", false],
  ["http://evil.example", "localhost:8080", false],
  ["null", "localhost:8080", false],
  ["", "localhost:8080", false],
  ["file://", "", false],
  ["file:///x", "localhost", false],
  ["chrome-extension://abc", "abc", false],
  ["http://localhost:8080 http://evil.example", "localhost:8080", false],
])("isSameOrigin(%j, %j) is %s", (origin, host, expected) => {
  expect(isSameOrigin(origin, host)).toBe(expected);
});

test.each([
  [undefined, null],
  ["", null],
  ["Bearer", null],
  ["Bearer ", null],
  ["Bearer abc", "abc"],
  ["bearer  abc ", "abc"],
  ["BEARER abc", "abc"],
  ["Bearer a b", null],
  ["Token abc", null],
  ["abc", null],
  [basic("me", "abc"), "abc"],
  [basic("", "abc"), "abc"],
  [basic("me", "a:b:c"), "a:b:c"],
  [basic("me", ""), ""],
  [basic("me", "pässword"), "pässword"],
  [`basic ${Buffer.from("no colon").toString("base64")}`, null],
  ["Basic !!!", null],
])("credential(%j) is %j", (header, expected) => {
  expect(credential(header)).toBe(expected);
});

describe("without a token", () => {
  test.each(["GET", "POST"])("%s is open to this machine", async (method) => {
    const { app } = appWith(null);
    expect((await app.request("/tasks", { method, headers: { host: "127.0.0.1:8080" } })).status).toBe(200);
    expect((await app.request("/tasks", { method })).status).toBe(200);
  });

  test.each([
    ["GET", "/tasks"],
    ["GET", "/queue"],
    ["GET", "/healthz"],
    ["POST", "/tasks"],
    ["GET", "/nothing-here"],
  ])("%s %s with a foreign Host is refused", async (method, path) => {
    const answer = await appWith(null).app.request(path, { method, headers: { host: "evil.example:8080" } });
    expect(await statusAndCode(answer)).toEqual([403, "forbidden_host"]);
  });

  test("a Host in the request line alone is judged too", async () => {
    const answer = await appWith(null).app.request("http://evil.example/tasks");
    expect(await statusAndCode(answer)).toEqual([403, "forbidden_host"]);
  });
});

describe.each([
  ["without a token", null, {}],
  ["with the right token", TOKEN, { authorization: `Bearer ${TOKEN}` }],
] as const)("a web page (%s)", (_, token, authorization) => {
  const ask = (method: string, origin: string) =>
    appWith(token).app.request("/tasks", {
      method,
      headers: { host: "localhost:8080", origin, ...authorization },
    });

  test.each(["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])("of another site may not %s", async (method) => {
    for (const origin of [
      "http://evil.example",
      "http://localhost:3000",
      "null",
      "https://localhost:8080.evil.example",
    ]) {
      const answer = await ask(method, origin);
      expect(answer.status, origin).toBe(403);
      if (method !== "HEAD") expect((await problemOf(answer)).code).toBe("forbidden_origin");
    }
  });

  test("of another site may ask with GET, but is given no leave to read the answer", async () => {
    const answer = await ask("GET", "http://evil.example");
    expect(answer.status).toBe(200);
    expect(answer.headers.get("access-control-allow-origin")).toBeNull();
  });

  test("of this service may change something", async () => {
    expect((await ask("POST", "http://localhost:8080")).status).toBe(200);
  });
});

describe("with a token", () => {
  const ask = (path: string, authorization?: string, method = "GET") =>
    appWith(TOKEN).app.request(path, { method, ...(authorization !== undefined && { headers: { authorization } }) });

  test.each([
    ["bearer", `Bearer ${TOKEN}`],
    ["bearer in another case", `bearer ${TOKEN}`],
    ["the password of Basic", basic("anyone", TOKEN)],
  ])("%s opens", async (_, authorization) => {
    expect((await ask("/tasks", authorization)).status).toBe(200);
    expect((await ask("/tasks", authorization, "POST")).status).toBe(200);
  });

  test.each([
    ["nothing", undefined],
    ["a wrong token", "Bearer wrong"],
    ["an empty token", "Bearer "],
    ["a part of the token", `Bearer ${TOKEN.slice(0, -1)}`],
    ["more than the token", `Bearer ${TOKEN}x`],
    ["the token in another case", `Bearer ${TOKEN.toUpperCase()}`],
    ["the token as the user of Basic", basic(TOKEN, "")],
    ["a wrong password", basic("me", "wrong")],
    ["the token under another scheme", `Token ${TOKEN}`],
    ["the bare token", TOKEN],
  ])("%s is 401, with what is asked for", async (_, authorization) => {
    const answer = await ask("/tasks", authorization);
    expect(answer.headers.get("www-authenticate")).toBe(
      'Bearer realm="orchestrator", Basic realm="orchestrator", charset="UTF-8"',
    );
    const problem = await problemOf(answer);
    expect([problem.status, problem.code]).toEqual([401, "unauthorized"]);
    expect(JSON.stringify(problem)).not.toContain(TOKEN);
  });

  test("a path that is not there says nothing without the token", async () => {
    expect(await statusAndCode(await ask("/nothing-here"))).toEqual([401, "unauthorized"]);
    expect(await statusAndCode(await ask("/nothing-here", `Bearer ${TOKEN}`))).toEqual([404, "not_found"]);
  });

  test.each(["/queue", "/healthz", "/readyz"])("%s may be read without it, and not written", async (path) => {
    expect((await ask(path)).status).toBe(200);
    expect((await ask(path, undefined, "HEAD")).status).toBe(200);
    expect(await statusAndCode(await ask(path, undefined, "POST"))).toEqual([401, "unauthorized"]);
  });

  test.each([
    "/queue/",
    "//queue",
    "/queue/../tasks",
    "/queue%2F..%2Ftasks",
    "/QUEUE",
    "/tasks?x=/queue",
    "/tasks#/queue",
  ])("%s is not taken for an open path", async (path) => {
    expect((await ask(path)).status).toBe(401);
  });

  test("any Host is answered: the service is known under names of its own", async () => {
    const headers = { host: "scheduler:8080", authorization: `Bearer ${TOKEN}` };
    expect((await appWith(TOKEN).app.request("/tasks", { headers })).status).toBe(200);
  });

  test("no log line holds what was sent", async () => {
    const { app, lines } = appWith(TOKEN);
    await app.request("/tasks", { headers: { authorization: `Bearer ${TOKEN}` } });
    await app.request("/tasks", { headers: { authorization: "Bearer wrong-guess" } });
    expect(lines()).toHaveLength(2);
    expect(JSON.stringify(lines())).not.toMatch(/s3cret|wrong-guess/);
  });
});
