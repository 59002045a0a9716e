import { parseInput } from "@orchestrator/shared/http/input_errors.ts";
import { cleanText, id, workItemId } from "@orchestrator/shared/schemas/text.ts";
import * as v from "valibot";
import { expect, test } from "vitest";

const SECRET = "hunter2-7f3a";

const cases: [schema: v.GenericSchema, input: unknown, errors: [path: string, message: string][]][] = [
  [v.string(), 7, [["", "must be of type string"]]],
  [v.number(), SECRET, [["", "must be of type number"]]],
  [v.boolean(), SECRET, [["", "must be of type boolean"]]],
  [v.strictObject({}), SECRET, [["", "must be a JSON object"]]],
  [v.object({ a: v.string() }), {}, [["a", "is required"]]],
  [v.array(v.string()), SECRET, [["", "must be a list"]]],
  [
    v.object({ a: v.array(v.object({ b: v.string() })) }),
    { a: [{ b: "" }, { b: 1 }] },
    [["a.1.b", "must be of type string"]],
  ],
  [v.picklist(["a", "b c"]), SECRET, [["", "must be one of: a, b c"]]],
  [v.literal("a"), SECRET, [["", 'must be "a"']]],
  [v.pipe(v.string(), v.maxLength(3)), SECRET, [["", "must be at most 3 characters long"]]],
  [v.pipe(v.string(), v.minLength(99)), SECRET, [["", "must be at least 99 characters long"]]],
  [v.pipe(v.string(), v.minLength(1)), "", [["", "must not be empty"]]],
  [v.pipe(v.number(), v.minValue(1), v.maxValue(5)), 71234, [["", "must be at most 5"]]],
  [v.pipe(v.number(), v.minValue(1), v.maxValue(5)), -71234, [["", "must be at least 1"]]],
  [v.pipe(v.number(), v.integer()), 7.1234, [["", "must be a whole number"]]],
  [id, 0, [["", "must be at least 1"]]],
  [workItemId, `-${SECRET}`, [["", "must match ^[A-Za-z][A-Za-z0-9._-]{0,63}$"]]],
  [cleanText(50), `${SECRET}\u0000`, [["", "must not hold control characters other than newline and tab"]]],
  [v.variant("kind", [v.object({ kind: v.literal("a") })]), { kind: SECRET }, [["kind", 'must be "a"']]],
  [v.nullable(v.string()), 1, [["", "must be of type string"]]],
  [v.pipe(v.string(), v.isoTimestamp()), SECRET, [["", "must be valid"]]],
];

test.each(cases)("case %#: says what is accepted and not what was there", (schema, input, expected) => {
  const result = parseInput(schema, input);
  if (result.kind === "ok") throw new Error("accepted");
  expect(result.errors.map(({ path, message }) => [path, message])).toEqual(expected);
  expect(JSON.stringify(result.errors)).not.toMatch(/hunter2|1234/);
});

test("valid input is given back as the schema makes it", () => {
  expect(parseInput(v.optional(v.string(), "x"), undefined)).toEqual({ kind: "ok", value: "x" });
});

test("every unknown field is named, also one that every object inherits", () => {
  const input = JSON.parse('{"a":1,"x":1,"constructor":2,"__proto__":3,"toString":4,"y":5}');
  const result = parseInput(v.strictObject({ a: v.string(), b: v.number() }), input);
  if (result.kind === "ok") throw new Error("accepted");
  expect(result.errors.map(({ path, message }) => `${path}: ${message}`).sort()).toEqual(
    [
      ...["a: must be of type string", "b: is required"],
      ...["x", "constructor", "__proto__", "toString", "y"].map((name) => `${name}: unknown field`),
    ].sort(),
  );
});

test("nothing inherited makes a field known where all else is right", () => {
  const result = parseInput(v.strictObject({ a: v.string() }), JSON.parse('{"a":"x","constructor":1}'));
  expect(result).toEqual({ kind: "invalid", errors: [{ path: "constructor", message: "unknown field" }] });
});

test("of very many faults the first hundred are named and the others counted", () => {
  const input = Object.fromEntries(Array.from({ length: 5000 }, (_, n) => [`${"x".repeat(200)}${n}`, n]));
  const result = parseInput(v.strictObject({}), input);
  if (result.kind === "ok") throw new Error("accepted");
  expect(result.errors).toHaveLength(101);
  expect(result.errors[0]).toEqual({ path: "x".repeat(80), message: "unknown field" });
  expect(result.errors[100]).toEqual({ path: "", message: "and 4900 more faults" });
});
