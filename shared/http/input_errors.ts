import * as v from "valibot";
import type { InputError } from "./problem.ts";

/** What is said of an unknown field repeats no more of its name. */
export const MAX_NAME_LENGTH = 80;

export type InputResult<T> = { kind: "ok"; value: T } | { kind: "invalid"; errors: InputError[] };

/**
 * Validates what came from outside. The messages say what is accepted and never what was there: an answer is logged and
 * shown in places where the input, which may be a secret in the wrong field, has no business.
 */
export const parseInput = <S extends v.GenericSchema>(schema: S, input: unknown): InputResult<v.InferOutput<S>> => {
  const result = v.safeParse(schema, input, { message: describe });
  if (result.success) return { kind: "ok", value: result.output };
  return { kind: "invalid", errors: result.issues.map((issue) => ({ path: pathOf(issue), message: issue.message })) };
};

const pathOf = (issue: v.BaseIssue<unknown>): string =>
  (issue.path ?? []).map(({ key }) => String(key).slice(0, MAX_NAME_LENGTH)).join(".");

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
    case "strict_object":
    case "object":
      return "must be a JSON object";
    case "array":
      return "must be a list";
    default:
      return issue.kind === "schema" ? `must be of type ${issue.expected}` : `must be ${issue.expected ?? "valid"}`;
  }
};
