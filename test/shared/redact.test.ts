import { createRedactor, createSuspicion } from "@orchestrator/shared/redact.ts";
import fc from "fast-check";
import { describe, expect, test } from "vitest";

const SECRETS = ['tok"en-ä\\9', "4711471147114711", "p a/ss"];

const suspicious = createSuspicion(SECRETS);
const redact = createRedactor(SECRETS);

describe("a line that is not suspected", () => {
  /** What a redactor looks for, whole and in parts, and what lies beside it. */
  const fragment = fc.constantFrom(
    ...SECRETS,
    ...SECRETS.map((secret) => encodeURIComponent(secret)),
    ...SECRETS.map((secret) => JSON.stringify({ nested: secret })),
    ...["Bearer ", "basic\n", "abcdefghijklmnop", "https://", "ssh://", "user:pw", "@", "host/", "token", "apiKey"],
    ...["api_key", "PASSWORD", "cookie", "request", '"', "\\", "\n", "ä", " ", ":"],
  );
  const text = fc.array(fragment, { maxLength: 5 }).map((parts) => parts.join(""));
  const value = fc.letrec((tie) => ({
    any: fc.oneof({ maxDepth: 2 }, text, fc.constantFrom(4711471147114711, 7, true, null), tie("list"), tie("fields")),
    list: fc.array(tie("any"), { maxLength: 3 }),
    fields: fc.dictionary(text, tie("any"), { maxKeys: 3 }),
  })).fields;

  test("holds nothing that would be replaced", () => {
    let passed = 0;
    fc.assert(
      fc.property(value, (fields) => {
        const line = JSON.stringify(fields);
        if (suspicious(line)) return;
        passed += 1;
        expect(redact(JSON.parse(line))).toEqual(JSON.parse(line));
      }),
      { numRuns: 5000 },
    );
    expect(passed).toBeGreaterThan(500);
  });
});

test("the lines of an ordinary request are not suspected", () => {
  const line = {
    level: "info",
    request_id: "f7cec91f-237c",
    method: "POST",
    path: "/tasks",
    status: 201,
    msg: "request",
  };
  expect(suspicious(JSON.stringify(line))).toBe(false);
});

test.each([
  ["a secret", { msg: `x ${SECRETS[0]} y` }],
  ["a secret in quoted JSON", { msg: JSON.stringify({ a: SECRETS[0] }) }],
  ["a secret in a URL", { msg: encodeURIComponent(SECRETS[2]!) }],
  ["a secret of digits as a number", { n: 4711471147114711 }],
  ["a field that is named like one", { stagerToken: "x" }],
  ["a header", { msg: "Authorization: bearer abcdefghijklmnopqrst" }],
  ["a URL with a password", { msg: "fetch ssh://git:pw@host/x failed" }],
])("%s is suspected, and replaced", (_, fields) => {
  const line = JSON.stringify(fields);
  expect(suspicious(line)).toBe(true);
  expect(JSON.stringify(redact(JSON.parse(line)))).toContain("[redacted]");
});
