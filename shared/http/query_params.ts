import type { MiddlewareHandler } from "hono";
import { resolver, uniqueSymbol } from "hono-openapi";
import type * as v from "valibot";
import type { HttpEnv } from "./env.ts";
import { parseInput } from "./input_errors.ts";
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
      return invalidInput(repeated.map(([path]) => ({ path: path.slice(0, 80), message: "may be given once only" })));
    }
    const input = parseInput(schema, Object.fromEntries(given.map(([name, values]) => [name, values[0]])));
    if (input.kind === "invalid") return invalidInput(input.errors);
    c.req.addValidatedData("query", input.value as object);
    return next();
  };
  return Object.assign(queryParams, { [uniqueSymbol]: { target: "query" as const, ...resolver(schema) } });
};
