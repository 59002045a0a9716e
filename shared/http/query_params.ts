import type { MiddlewareHandler } from "hono";
import { resolver, uniqueSymbol } from "hono-openapi";
import * as v from "valibot";
import type { HttpEnv } from "./env.ts";
import { MAX_NAME_LENGTH, parseInput } from "./input_errors.ts";
import { invalidInput } from "./problem.ts";

/**
 * Validates the query: 422 `invalid_input` where it is not accepted, else the handler finds it as `c.req.valid("query")`.
 * A parameter that is given more than once is a fault. The same schema stands in the OpenAPI document.
 */
export const queryParams = <S extends v.GenericSchema>(schema: S) => {
  const queryParams: MiddlewareHandler<
    HttpEnv,
    string,
    { in: { query: Record<string, string> }; out: { query: v.InferOutput<S> } }
  > = async (c, next) => {
    const given = Object.entries(c.req.queries());
    const repeated = given.filter(([, values]) => values.length > 1);
    if (repeated.length > 0) {
      return invalidInput(
        repeated.map(([name]) => ({ path: name.slice(0, MAX_NAME_LENGTH), message: "may be given once only" })),
      );
    }
    const input = parseInput(schema, Object.fromEntries(given.map(([name, values]) => [name, values[0]])));
    if (input.kind === "invalid") return invalidInput(input.errors);
    c.req.addValidatedData("query", input.value as object);
    return next();
  };
  return Object.assign(queryParams, { [uniqueSymbol]: { target: "query" as const, ...resolver(schema) } });
};

/**
 * A whole number from `min` to `max`, which a query can only hold as text; it is documented as the number it stands for.
 * Absent, it is `absent`.
 */
export const wholeNumberParam = ({ min, max, absent }: { min: number; max: number; absent: number }) => {
  const message = `must be a whole number from ${min} to ${max}`;
  const digits = v.pipe(
    v.string(),
    v.regex(/^\d{1,15}$/, message),
    v.transform(Number),
    v.minValue(min, message),
    v.maxValue(max, message),
  );
  // Metadata takes the place of what the document would say of the text.
  const documented = { type: "integer", minimum: min, maximum: max, default: absent, pattern: undefined };
  return v.pipe(v.optional(digits, String(absent)), v.metadata(documented));
};
