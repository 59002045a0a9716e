import { jsonBody, MAX_BODY_BYTES } from "@orchestrator/shared/http/json_body.ts";
import * as v from "valibot";
import { describe, expect, test } from "vitest";
import { createTestApp, postJson, problemOf, statusAndCode } from "./harness.ts";

const { app } = createTestApp();
app.post("/things", jsonBody(v.strictObject({ name: v.string(), size: v.optional(v.number(), 7) })), (c) =>
  c.json(c.req.valid("json")),
);

const send = (body: RequestInit["body"], headers: Record<string, string> = { "content-type": "application/json" }) =>
  app.request("/things", { method: "POST", body: body ?? null, headers, duplex: "half" } as RequestInit);

/** A body of exactly that many bytes that is valid but for its size. */
const bodyOf = (bytes: number): string => {
  const frame = JSON.stringify({ name: "" });
  return JSON.stringify({ name: "x".repeat(bytes - frame.length) });
};

const streamOf = (...chunks: string[]): ReadableStream<Uint8Array> =>
  new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(new TextEncoder().encode(chunk));
      controller.close();
    },
  });

test("a valid body reaches the handler, with its defaults", async () => {
  const answer = await app.request("/things", postJson({ name: "a" }));
  expect([answer.status, await answer.json()]).toEqual([200, { name: "a", size: 7 }]);
});

describe("the content type", () => {
  test.each([
    "application/json",
    "Application/JSON",
    "application/json; charset=utf-8",
    "application/merge-patch+json",
  ])("%s is JSON", async (type) => {
    expect((await send('{"name":"a"}', { "content-type": type })).status).toBe(200);
  });

  test.each([
    "text/plain",
    "text/plain; application/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/jsonp",
    "application/json-seq",
    "application/xml",
    "json",
    "",
  ])("%j is not", async (type) => {
    expect(await statusAndCode(await send('{"name":"a"}', { "content-type": type }))).toEqual([
      415,
      "unsupported_media_type",
    ]);
  });

  test("absent is not: what a form or a plain fetch of another page can send is never read", async () => {
    const bytes = new TextEncoder().encode('{"name":"a"}');
    expect(await statusAndCode(await send(bytes, {}))).toEqual([415, "unsupported_media_type"]);
  });

  test("compressed is not", async () => {
    const answer = await send("x", { "content-type": "application/json", "content-encoding": "gzip" });
    expect(await statusAndCode(answer)).toEqual([415, "unsupported_media_type"]);
  });
});

describe("malformed JSON", () => {
  test.each([
    "",
    " ",
    "{",
    '{"name":"a"',
    '{"name":"a"}}',
    "{name:1}",
    "{'name':'a'}",
    '{"name":"a",}',
    "undefined",
    "NaN",
    '"\n"',
  ])("%j is 400", async (body) => {
    expect(await statusAndCode(await send(body))).toEqual([400, "malformed_json"]);
  });

  test("a body that is not UTF-8 is 400", async () => {
    const bytes = new Uint8Array([
      ...new TextEncoder().encode('{"name":"'),
      0xff,
      0xfe,
      ...new TextEncoder().encode('"}'),
    ]);
    expect(await statusAndCode(await send(bytes))).toEqual([400, "malformed_json"]);
  });

  test("the answer repeats nothing of it", async () => {
    const problem = await problemOf(await send('{"name": my-secret-value}'));
    expect(JSON.stringify(problem)).not.toContain("secret");
  });
});

describe("the size", () => {
  test("1 MiB is read", async () => {
    const answer = await send(bodyOf(MAX_BODY_BYTES));
    expect(answer.status).toBe(200);
    expect(((await answer.json()) as { name: string }).name.length).toBeGreaterThan(MAX_BODY_BYTES - 100);
  });

  test("one byte more is 413, whether the length is said", async () => {
    const body = bodyOf(MAX_BODY_BYTES + 1);
    const answer = await send(body, { "content-type": "application/json", "content-length": String(body.length) });
    expect(await statusAndCode(answer)).toEqual([413, "body_too_large"]);
  });

  test("or is not", async () => {
    const body = bodyOf(MAX_BODY_BYTES + 1);
    const answer = await send(streamOf(body.slice(0, 1000), body.slice(1000)));
    expect(await statusAndCode(answer)).toEqual([413, "body_too_large"]);
  });

  test("or is a lie", async () => {
    const body = bodyOf(MAX_BODY_BYTES + 1);
    const answer = await send(streamOf(body), { "content-type": "application/json", "content-length": "10" });
    expect(await statusAndCode(answer)).toEqual([413, "body_too_large"]);
  });

  test("a body without end is given up as soon as it is too long", async () => {
    let sent = 0;
    let cancelled = false;
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        sent += 64 * 1024;
        controller.enqueue(new Uint8Array(64 * 1024));
      },
      cancel() {
        cancelled = true;
      },
    });
    expect(await statusAndCode(await send(endless))).toEqual([413, "body_too_large"]);
    expect(cancelled).toBe(true);
    expect(sent).toBeLessThan(2 * MAX_BODY_BYTES);
  });

  test("bytes count, not characters", async () => {
    const body = JSON.stringify({ name: "ä".repeat(MAX_BODY_BYTES / 2) });
    expect(body.length).toBeLessThan(MAX_BODY_BYTES);
    expect(await statusAndCode(await send(body))).toEqual([413, "body_too_large"]);
  });
});

describe("invalid input", () => {
  const errorsOf = async (body: unknown) => (await problemOf(await app.request("/things", postJson(body)))).errors;

  test("is 422 and says of each field what is accepted", async () => {
    const problem = await problemOf(await app.request("/things", postJson({ size: "big" })));
    expect(problem).toEqual({
      type: "urn:orchestrator:problem:invalid_input",
      title: "Invalid input",
      status: 422,
      detail: "The input has 2 faults: see errors.",
      code: "invalid_input",
      errors: [
        { path: "name", message: "is required" },
        { path: "size", message: "must be of type number" },
      ],
    });
  });

  test.each(["null", "[]", '[{"name":"a"}]', '"text"', "1", "true"])("%s is not an object", async (body) => {
    expect(await errorsOf(body)).toEqual([{ path: "", message: "must be a JSON object" }]);
  });

  test.each(["nmae", "__proto__", "constructor", "hasOwnProperty", "toString"])(
    "%s is an unknown field",
    async (field) => {
      expect(await errorsOf(`{"name":"a","${field}":{"size":1}}`)).toEqual([{ path: field, message: "unknown field" }]);
    },
  );

  test("the name of an unknown field is repeated in part only", async () => {
    const errors = await errorsOf({ name: "a", ["x".repeat(5_000)]: 1 });
    expect(errors).toEqual([{ path: "x".repeat(80), message: "unknown field" }]);
  });

  test("a deeply nested body is answered like any other", async () => {
    const depth = 200_000;
    const answer = await app.request("/things", postJson(`${"[".repeat(depth)}${"]".repeat(depth)}`));
    expect([400, 422]).toContain(answer.status);
  });
});

describe("a body that need not be sent", () => {
  app.post("/optional", jsonBody(v.strictObject({ note: v.exactOptional(v.string()) }), { optional: true }), (c) =>
    c.json(c.req.valid("json")),
  );
  const post = (body?: RequestInit["body"], headers: Record<string, string> = {}) =>
    app.request("/optional", { method: "POST", body: body ?? null, headers, duplex: "half" } as RequestInit);
  const json = { "content-type": "application/json" };

  test.each<[string, () => Promise<Response> | Response, unknown]>([
    ["not sent", () => post(), {}],
    ["empty, without a type", () => post(streamOf()), {}],
    ["empty, as JSON", () => post("", json), {}],
    ["an empty object", () => post("{}", json), {}],
    ["one with something in it", () => post('{"note":"x"}', json), { note: "x" }],
  ])("%s", async (_, send, expected) => {
    const answer = await send();
    expect([answer.status, await answer.json()]).toEqual([200, expected]);
  });

  test.each<[string, () => Promise<Response> | Response, [number, string]]>([
    ["without a type", () => post(streamOf('{"note":"x"}')), [415, "unsupported_media_type"]],
    ["of another type", () => post("", { "content-type": "text/plain" }), [415, "unsupported_media_type"]],
    ["that is not JSON", () => post("x", json), [400, "malformed_json"]],
    ["of blanks", () => post(" ", json), [400, "malformed_json"]],
    ["with unknown fields", () => post('{"more":1}', json), [422, "invalid_input"]],
    ["too long, without a type", () => post(streamOf("x".repeat(MAX_BODY_BYTES), "x")), [413, "body_too_large"]],
  ])("one %s is refused all the same", async (_, send, expected) => {
    expect(await statusAndCode(await send())).toEqual(expected);
  });
});
