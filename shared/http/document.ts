import { type DescribeRouteOptions, resolver } from "hono-openapi";
import type * as v from "valibot";
import { PROBLEMS, type ProblemCode, problemSchema } from "./problem.ts";

type Responses = NonNullable<DescribeRouteOptions["responses"]>;

/** Documents an answer of JSON. */
export const jsonAnswer = (description: string, schema: v.GenericSchema): Responses[string] => ({
  description,
  content: { "application/json": { schema: resolver(schema) } },
});

/** Documents the errors that a route answers with, by status: several codes may share one. */
export const problemAnswers = (...codes: readonly ProblemCode[]): Responses => {
  const statuses = [...new Set(codes.map((code) => PROBLEMS[code].status))];
  return Object.fromEntries(
    statuses.map((status) => [
      status,
      {
        description: codes
          .filter((code) => PROBLEMS[code].status === status)
          .map((code) => `\`${code}\`: ${PROBLEMS[code].title}`)
          .join("; "),
        content: { "application/problem+json": { schema: resolver(problemSchema) } },
      },
    ]),
  );
};

/** The errors of every route that takes a JSON body. */
export const BODY_PROBLEMS = [
  "malformed_json",
  "body_too_large",
  "unsupported_media_type",
  "invalid_input",
] as const satisfies readonly ProblemCode[];

/** For a route that needs no token: takes back what the document asks of every route. */
export const OPEN: Pick<DescribeRouteOptions, "security"> = { security: [] };
