import type { MiddlewareHandler } from "hono";
import { resolver, uniqueSymbol } from "hono-openapi";
import * as v from "valibot";
import type { HttpEnv } from "./env.ts";
import { parseInput, shortened } from "./input_errors.ts";
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
    const given = new URL(c.req.url).searchParams;
    const repeated = [...new Set(given.keys())].filter((name) => given.getAll(name).length > 1);
    const input = parseInput(schema, Object.fromEntries(given));
    if (repeated.length > 0) {
      const others = input.kind === "invalid" ? input.errors.filter(({ path }) => !repeated.includes(path)) : [];
      return invalidInput([
        ...repeated.map((name) => ({ path: shortened(name), message: "may be given once only" })),
        ...others,
      ]);
    }
    if (input.kind === "invalid") return invalidInput(input.errors);
    c.req.addValidatedData("query", input.value as object);
    return next();
  };
  return Object.assign(queryParams, { [uniqueSymbol]: { target: "query" as const, ...resolver(schema) } });
};

interface WholeNumber {
  min: number;
  max: number;
}

/**
 * A whole number from `min` to `max`, which a query can only hold as text; it is documented as the number it stands for.
 */
export const wholeNumber = ({ min, max }: WholeNumber) => {
  const message = `must be a whole number from ${min} to ${max}`;
  return v.pipe(
    v.string(),
    v.regex(/^\d{1,15}$/, message),
    v.transform(Number),
    v.minValue(min, message),
    v.maxValue(max, message),
    // Metadata takes the place of what the document would say of the text.
    v.metadata({ type: "integer", minimum: min, maximum: max, pattern: undefined }),
  );
};

/** The same, and `absent` where it is not given. */
export const wholeNumberParam = ({ absent, ...range }: WholeNumber & { absent: number }) =>
  v.pipe(v.optional(wholeNumber(range), String(absent)), v.metadata({ default: absent }));

/** `true` or `false`; false where it is not given. */
export const flagParam = v.pipe(
  v.optional(v.picklist(["true", "false"]), "false"),
  v.transform((text) => text === "true"),
  v.metadata({ type: "boolean", default: false, enum: undefined }),
);
