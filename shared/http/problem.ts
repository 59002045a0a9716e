import type { ContentfulStatusCode } from "hono/utils/http-status";
import * as v from "valibot";

/** Every error that the two services answer with: its code, and the status and title that go with it. */
export const PROBLEMS = {
  bad_request: { status: 400, title: "The request cannot be read" },
  malformed_json: { status: 400, title: "The body is not JSON" },
  unauthorized: { status: 401, title: "A token is needed" },
  forbidden_host: { status: 403, title: "Foreign Host header" },
  forbidden_origin: { status: 403, title: "Foreign Origin header" },
  not_found: { status: 404, title: "Not found" },
  method_not_allowed: { status: 405, title: "Method not allowed" },
  work_item_exists: { status: 409, title: "The work item exists already" },
  branch_taken: { status: 409, title: "The branch belongs to another task" },
  invalid_state: { status: 409, title: "The state does not allow this" },
  not_a_staging_job: { status: 409, title: "Not a staging job" },
  body_too_large: { status: 413, title: "The body is too large" },
  unsupported_media_type: { status: 415, title: "The body is not sent as JSON" },
  invalid_input: { status: 422, title: "Invalid input" },
  unknown_repo: { status: 422, title: "Unknown repository" },
  internal: { status: 500, title: "Internal error" },
  unavailable: { status: 503, title: "Not available now" },
  fenced_off: { status: 503, title: "Another scheduler has taken over" },
} as const satisfies Record<string, { status: ContentfulStatusCode; title: string }>;

export type ProblemCode = keyof typeof PROBLEMS;

/** One fault in the input: where it is (`title`, `steps.0.name`; empty for the input as a whole) and what is accepted. */
export interface InputError {
  path: string;
  message: string;
}

/** RFC 9457, with the member `code` to act on and, for invalid input, `errors`. */
export const problemSchema = v.pipe(
  v.object({
    type: v.string(),
    title: v.string(),
    status: v.pipe(v.number(), v.integer()),
    detail: v.string(),
    code: v.picklist(Object.keys(PROBLEMS) as [ProblemCode, ...ProblemCode[]]),
    errors: v.exactOptional(v.array(v.object({ path: v.string(), message: v.string() }))),
  }),
  v.metadata({ ref: "Problem" }),
);

export interface ProblemExtras {
  errors?: readonly InputError[];
  headers?: Readonly<Record<string, string>>;
}

/** The members of a problem. */
export const problemBody = (
  code: ProblemCode,
  detail: string,
  errors?: readonly InputError[],
): v.InferOutput<typeof problemSchema> => {
  const { status, title } = PROBLEMS[code];
  const type = `urn:orchestrator:problem:${code}`;
  return { type, title, status, detail, code, ...(errors && { errors: [...errors] }) };
};

/**
 * The answer `application/problem+json` for a code.
 * @param detail what was found, what is accepted, what to do; nothing of the input is repeated in it
 */
export const problem = (code: ProblemCode, detail: string, { errors, headers }: ProblemExtras = {}): Response =>
  new Response(JSON.stringify(problemBody(code, detail, errors)), {
    status: PROBLEMS[code].status,
    headers: { ...headers, "content-type": "application/problem+json" },
  });

/** 422 `invalid_input`: says what is wrong with each field. */
export const invalidInput = (errors: readonly InputError[]): Response => {
  const many = errors.length === 1 ? "1 fault" : `${errors.length} faults`;
  return problem("invalid_input", `The input has ${many}: see errors.`, { errors });
};
