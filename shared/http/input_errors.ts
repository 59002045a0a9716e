import * as v from "valibot";
import type { InputError } from "./problem.ts";

/** What is said of an unknown field repeats no more of its name. */
const MAX_NAME_LENGTH = 80;

export type InputResult<T> = { kind: "ok"; value: T } | { kind: "invalid"; errors: InputError[] };

/** So many faults are named one by one; of more, only their number is told. */
const MAX_ERRORS = 100;

/**
 * Validates what came from outside, and names every field that is at fault. The messages say what is accepted and never what
 * was there: an answer is logged and shown in places where the input, which may be a secret in the wrong field, has no
 * business.
 */
export const parseInput = <S extends v.GenericSchema>(schema: S, input: unknown): InputResult<v.InferOutput<S>> => {
  const result = v.safeParse(schema, input, { message: describe });
  const unknown = unknownFields(schema, input);
  const errors: InputError[] = (result.issues ?? [])
    .filter((issue) => !isAboutUnknownField(issue))
    .map((issue) => ({ path: pathOf(issue), message: issue.message }));
  errors.push(...unknown.map((name) => ({ path: shortened(name), message: "unknown field" })));
  if (result.success && errors.length === 0) return { kind: "ok", value: result.output };
  return { kind: "invalid", errors: atMost(errors) };
};

/**
 * The fields of an object that a strict schema does not know. The library names the first one only, and takes what every
 * object inherits (`constructor`) for known.
 */
const unknownFields = (schema: v.GenericSchema, input: unknown): string[] => {
  if (!isStrictObject(schema) || typeof input !== "object" || input === null) return [];
  return Object.keys(input).filter((name) => !Object.hasOwn(schema.entries, name));
};

const isStrictObject = (schema: v.GenericSchema): schema is v.GenericSchema & { entries: object } =>
  schema.type === "strict_object" && "entries" in schema;

const isAboutUnknownField = ({ type, expected, path }: v.BaseIssue<unknown>): boolean =>
  type === "strict_object" && expected === "never" && path?.length === 1;

const atMost = (errors: InputError[]): InputError[] => {
  const more = errors.length - MAX_ERRORS;
  if (more <= 0) return errors;
  return [...errors.slice(0, MAX_ERRORS), { path: "", message: `and ${more} more faults` }];
};

/** A name that came from outside, as an answer may hold it. */
export const shortened = (name: string): string => name.slice(0, MAX_NAME_LENGTH).toWellFormed();

const pathOf = (issue: v.BaseIssue<unknown>): string =>
  (issue.path ?? []).map(({ key }) => shortened(String(key))).join(".");

/** The message of an issue whose schema has none of its own. */
const describe = (issue: v.BaseIssue<unknown>): string => {
  const missing = issue.path?.at(-1)?.origin === "key";
  if (missing) return issue.expected === "never" ? "unknown field" : "is required";
  const { requirement } = issue;
  switch (issue.type) {
    case "max_length":
      return `must be at most ${requirement} characters long`;
    case "min_length":
      if (requirement === 1) return "must not be empty";
      return `must be at least ${requirement} characters long`;
    case "max_value":
      return `must be at most ${requirement}`;
    case "min_value":
      return `must be at least ${requirement}`;
    case "integer":
    case "safe_integer":
      return "must be a whole number";
    case "picklist":
      return `must be one of: ${String(issue.expected).replaceAll(/[()"]/g, "").replaceAll(" | ", ", ")}`;
    case "literal":
    case "variant":
      return `must be ${issue.expected}`;
    case "strict_object":
    case "object":
      return "must be a JSON object";
    case "array":
      return "must be a list";
    default:
      return issue.kind === "schema" ? `must be of type ${issue.expected}` : `must be ${issue.expected ?? "valid"}`;
  }
};
