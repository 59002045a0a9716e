import { once } from "node:events";
import { request } from "node:http";
import { connect } from "node:net";
import { jsonBody, MAX_BODY_BYTES } from "@orchestrator/shared/http/json_body.ts";
import { type RunningServer, serve } from "@orchestrator/shared/serve.ts";
import * as v from "valibot";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestApp, postJson, statusAndCode } from "./harness.ts";

const errors: unknown[] = [];
let server: RunningServer;
let url: string;

beforeAll(async () => {
  const { app } = createTestApp();
  app.get("/things", (c) => c.json({ ok: true }));
  app.post("/things", jsonBody(v.strictObject({ name: v.string() })), (c) =>
    c.json({ length: c.req.valid("json").name.length }),
  );
  server = await serve({ fetch: app.fetch, host: "127.0.0.1", port: 0, onError: (error) => errors.push(error) });
  url = `http://127.0.0.1:${server.port}/things`;
});

afterAll(async () => {
  await server.close();
  expect(errors).toEqual([]);
});

/** A request with headers that fetch would not let through. */
const get = (headers: Record<string, string>): Promise<number> =>
  new Promise((resolve, reject) => {
    request(url, { headers, agent: false }, (answer) => {
      answer.resume();
      resolve(answer.statusCode!);
    })
      .on("error", reject)
      .end();
  });

/** Sends the text as it is and gives back the answer. */
const rawAnswer = async (text: string): Promise<string> => {
  const socket = connect(server.port, "127.0.0.1");
  socket.end(text);
  let answer = "";
  for await (const data of socket) answer += data;
  return answer;
};

test("a real request is answered, with its id", async () => {
  const answer = await fetch(url);
  expect(await answer.json()).toEqual({ ok: true });
  expect(answer.headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
});

test.each([
  ["localhost", 200],
  ["evil.example", 403],
  ["evil.example:80", 403],
])("the Host that was sent is judged: %s", async (host, status) => {
  expect(await get({ host })).toBe(status);
});

test.each([
  ["in the request line", "GET http://evil.example/things HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"],
  ["that is no host", "GET /things HTTP/1.1\r\nHost: a/b@c\r\nConnection: close\r\n\r\n"],
  ["that is empty", "GET /things HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n"],
])("a Host %s gets no further", async (_, text) => {
  const answer = await rawAnswer(text);
  expect(answer).toMatch(/^HTTP\/1\.1 (400|403) /);
  // What is no HTTP at all the runtime itself refuses, without a body.
  if (answer.split("\r\n\r\n")[1] !== "") expect(answer).toMatch(/^content-type: application\/problem\+json\r$/im);
});

test("a body of 1 MiB is read", async () => {
  const name = "x".repeat(MAX_BODY_BYTES - 11);
  const answer = await fetch(url, postJson({ name }));
  expect(await answer.json()).toEqual({ length: name.length });
});

test("a body that is too long is 413, and the client gets to read it", async () => {
  const answer = await fetch(url, postJson({ name: "x".repeat(2 * MAX_BODY_BYTES) }));
  expect(await statusAndCode(answer)).toEqual([413, "body_too_large"]);
});

test("a chunked body that is too long is 413 too", async () => {
  let left = 40;
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (left-- === 0) controller.close();
      else controller.enqueue(new Uint8Array(64 * 1024).fill(0x20));
    },
  });
  const init = { ...postJson(""), body, duplex: "half" } as RequestInit;
  expect(await statusAndCode(await fetch(url, init))).toEqual([413, "body_too_large"]);
});

test("a client that leaves in the middle of its body does no harm", async () => {
  const socket = connect(server.port, "127.0.0.1");
  await once(socket, "connect");
  socket.write(
    'POST /things HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"name',
  );
  socket.destroy();
  await once(socket, "close");
  expect((await fetch(url)).status).toBe(200);
});
