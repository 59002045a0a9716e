import { type DescribeRouteOptions, resolver } from "hono-openapi";
import type * as v from "valibot";
import { PROBLEMS, type ProblemCode, problemBody, problemSchema } from "./problem.ts";

type Responses = NonNullable<DescribeRouteOptions["responses"]>;

/** Documents an answer of JSON, with an example of it. */
export const jsonAnswer = (description: string, schema: v.GenericSchema, example: unknown): Responses[string] => ({
  description,
  content: { "application/json": { schema: resolver(schema), example } },
});

/** Documents an answer that is text, whole or as a stream. */
export const textAnswer = (description: string, mediaType: string, example: string): Responses[string] => ({
  description,
  content: { [mediaType]: { schema: { type: "string" }, example } },
});

/** Documents the errors that a route answers with, by status: several codes may share one. */
export const problemAnswers = (...codes: readonly ProblemCode[]): Responses => {
  const statuses = [...new Set(codes.map((code) => PROBLEMS[code].status))];
  return Object.fromEntries(
    statuses.map((status) => {
      const own = codes.filter((code) => PROBLEMS[code].status === status);
      const description = own.map((code) => `\`${code}\`: ${PROBLEMS[code].title}`).join("; ");
      const examples = Object.fromEntries(own.map((code) => [code, { value: exampleOf(code) }]));
      return [
        status,
        { description, content: { "application/problem+json": { schema: resolver(problemSchema), examples } } },
      ];
    }),
  );
};

const exampleOf = (code: ProblemCode): v.InferOutput<typeof problemSchema> =>
  problemBody(
    code,
    PROBLEM_DETAILS[code] ?? `${PROBLEMS[code].title}.`,
    code === "invalid_input" ? [{ path: "title", message: "is required" }] : undefined,
  );

/** What an example says where the title says too little. */
const PROBLEM_DETAILS: Partial<Record<ProblemCode, string>> = {
  invalid_input: "The input has 1 fault: see errors.",
  invalid_state: "The task is active; retry needs it to be blocked. In this state allowed now: cancel.",
  work_item_exists: "there is a task for ORCH-115 already",
  unknown_repo: "there is no repository 'shopp' in the configuration; configured: shop",
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
