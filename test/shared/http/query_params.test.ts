import { cursorParam, decodeCursor, encodeCursor } from "@orchestrator/shared/http/cursor.ts";
import { flagParam, queryParams, wholeNumberParam } from "@orchestrator/shared/http/query_params.ts";
import * as v from "valibot";
import { describe, expect, test } from "vitest";
import { createTestApp, problemOf } from "./harness.ts";

const { app } = createTestApp();
const schema = v.strictObject({
  state: v.exactOptional(v.picklist(["on", "off"])),
  limit: wholeNumberParam({ min: 1, max: 200, absent: 50 }),
  cursor: v.exactOptional(cursorParam),
});
app.get("/things", queryParams(schema), (c) => c.json(c.req.valid("query")));

const { app: flags } = createTestApp();
flags.get("/flags", queryParams(v.strictObject({ on: flagParam })), (c) => c.json(c.req.valid("query")));

test.each([
  ["", { limit: 50 }],
  ["?limit=1", { limit: 1 }],
  ["?limit=200&state=on", { limit: 200, state: "on" }],
  ["?limit=007", { limit: 7 }],
  [`?cursor=${encodeCursor(123)}`, { limit: 50, cursor: 123 }],
])("%j is read", async (query, expected) => {
  const answer = await app.request(`/things${query}`);
  expect([answer.status, await answer.json()]).toEqual([200, expected]);
});

const WHOLE = "must be a whole number from 1 to 200";

test.each([
  ["?limit=0", "limit", WHOLE],
  ["?limit=201", "limit", WHOLE],
  ["?limit=-1", "limit", WHOLE],
  ["?limit=1.5", "limit", WHOLE],
  ["?limit=1e2", "limit", WHOLE],
  ["?limit=0x10", "limit", WHOLE],
  ["?limit=", "limit", WHOLE],
  ["?limit=%2010", "limit", WHOLE],
  ["?limit=99999999999999999999", "limit", WHOLE],
  ["?limit=1&limit=2", "limit", "may be given once only"],
  ["?state=maybe", "state", "must be one of: on, off"],
  ["?stat=on", "stat", "unknown field"],
  ["?__proto__=1", "__proto__", "unknown field"],
  ["?cursor=abc", "cursor", "must be a next_cursor that this list has answered with"],
  ["?cursor=", "cursor", "must be a next_cursor that this list has answered with"],
])("%j is 422", async (query, path, message) => {
  const { status, code, errors } = await problemOf(await app.request(`/things${query}`));
  expect({ status, code }).toEqual({ status: 422, code: "invalid_input" });
  expect(errors).toContainEqual({ path, message });
  expect(new Set(errors!.map((error) => error.path))).toEqual(new Set([path]));
});

describe("a cursor", () => {
  test.each([0, 1, 50, 999_999_999_999_999])("says after which id to go on: %i", (id) => {
    expect(decodeCursor(encodeCursor(id))).toBe(id);
    expect(encodeCursor(id)).toMatch(/^[A-Za-z0-9_-]+$/);
  });

  test.each([
    "",
    "5",
    "!!",
    Buffer.from("5").toString("base64url"),
    Buffer.from("after -5").toString("base64url"),
    Buffer.from("after 05").toString("base64url"),
    Buffer.from("after 9999999999999999999").toString("base64url"),
    Buffer.from("after 5; DROP TABLE tasks").toString("base64url"),
    `${encodeCursor(5)}=`,
    `${encodeCursor(5)} `,
  ])("is nothing else: %j", (text) => {
    expect(decodeCursor(text)).toBeNull();
  });
});

test("every parameter that is at fault is named, repeated or not", async () => {
  const { errors } = await problemOf(
    await app.request("/things?limit=1&limit=2&state=maybe&a=1&b=2&b=3&constructor=4"),
  );
  expect(errors!.map(({ path, message }) => `${path}: ${message}`).sort()).toEqual([
    "a: unknown field",
    "b: may be given once only",
    "constructor: unknown field",
    "limit: may be given once only",
    "state: must be one of: on, off",
  ]);
});

test.each([
  ["", false],
  ["?on=true", true],
  ["?on=false", false],
])("a flag is read: %j", async (query, on) => {
  const answer = await flags.request(`/flags${query}`);
  expect(await answer.json()).toEqual({ on });
});

test.each(["?on", "?on=", "?on=1", "?on=TRUE"])("a flag is true or false: %s is 422", async (query) => {
  const { errors } = await problemOf(await flags.request(`/flags${query}`));
  expect(errors).toEqual([{ path: "on", message: "must be one of: true, false" }]);
});
