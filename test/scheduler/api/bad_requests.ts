import { MAX_BODY_BYTES } from "@orchestrator/shared/http/json_body.ts";
import type { ProblemCode } from "@orchestrator/shared/http/problem.ts";

/** What is asked, and the exact answer: status, code, and what `errors` says (null: there is none). */
export type BadRequest = [
  request: string,
  init: RequestInit,
  status: number,
  code: ProblemCode,
  errors?: Record<string, string>,
];

const json = (body: unknown, headers: Record<string, string> = {}): RequestInit => ({
  body: typeof body === "string" ? body : JSON.stringify(body),
  headers: { "content-type": "application/json", ...headers },
});
const headers = (given: Record<string, string>): RequestInit => ({ headers: given });

const MINIMAL = { work_item_id: "ORCH-9", title: "A title", repo: "shop" };
const RETURN = { to: "analysis", reason: "x" };
const LONG = "x".repeat(10_001);

const NO_OBJECT = { "": "must be a JSON object" };
const BLANK = "must not be blank";
const CONTROL = "must not hold control characters other than newline and tab";
const ID = "must match ^[A-Za-z][A-Za-z0-9._-]{0,63}$";
const BRANCH = "must be a branch name that `git check-ref-format --branch` accepts";
const LIMIT = "must be a whole number from 1 to 200";
const LARGE = "must be a whole number from 0 to 999999999999999";
const CURSOR = "must be a next_cursor that this list has answered with";
const AGENTS = "must be an agent of the configuration: analyst, architect, developer, reviewer, tester, deployer";
const REPOS = "must be a repository of the configuration: shop, web";
const JOB_STATUSES = "must be one of: queued, running, done, failed, cancelled";
const TASK_STATUSES = "must be one of: active, waiting, blocked, done, cancelled";
const UNKNOWN = "unknown field";
const TEXT = "must be of type string";
const ONCE = "may be given once only";

/** The tasks that there are: 1 is active, 2 waits in deploy, 3 is blocked in review, 4 is done, 5 is cancelled. */
export const badRequests: readonly BadRequest[] = [
  ["GET /", {}, 404, "not_found"],
  ["GET /nothing", {}, 404, "not_found"],
  ["POST /task", json(MINIMAL), 404, "not_found"],
  ["GET /tasks/", {}, 404, "not_found"],
  ["GET /tasks/1/cancel/now", {}, 404, "not_found"],
  ["GET /..%2f..%2fetc/passwd", {}, 404, "not_found"],
  ["DELETE /tasks", {}, 405, "method_not_allowed"],
  ["PUT /tasks/1", json({}), 405, "method_not_allowed"],
  ["GET /tasks/1/cancel", {}, 405, "method_not_allowed"],
  ["PATCH /tasks/1/retry", json({}), 405, "method_not_allowed"],
  ["POST /queue", json({}), 405, "method_not_allowed"],
  ["GET /queue/pause", {}, 405, "method_not_allowed"],
  ["POST /jobs", json({}), 405, "method_not_allowed"],
  ["DELETE /runs/1/log", {}, 405, "method_not_allowed"],
  ["POST /events", json({}), 405, "method_not_allowed"],
  ["OPTIONS /tasks", {}, 405, "method_not_allowed"],

  ["GET /tasks", headers({ host: "evil.example" }), 403, "forbidden_host"],
  ["GET /queue", headers({ host: "10.0.0.1:8080" }), 403, "forbidden_host"],
  ["POST /tasks", json(MINIMAL, { origin: "http://evil.example" }), 403, "forbidden_origin"],
  ["POST /tasks/1/cancel", headers({ origin: "null" }), 403, "forbidden_origin"],
  ["POST /queue/pause", headers({ origin: "http://localhost.evil.example" }), 403, "forbidden_origin"],

  ["POST /tasks", {}, 415, "unsupported_media_type"],
  [
    "POST /tasks",
    { body: JSON.stringify(MINIMAL), ...headers({ "content-type": "text/plain" }) },
    415,
    "unsupported_media_type",
  ],
  [
    "POST /tasks",
    { body: "a=b", ...headers({ "content-type": "application/x-www-form-urlencoded" }) },
    415,
    "unsupported_media_type",
  ],
  ["POST /tasks", json(MINIMAL, { "content-encoding": "gzip" }), 415, "unsupported_media_type"],
  [
    "POST /tasks/1/cancel",
    { body: "reason=x", ...headers({ "content-type": "text/plain" }) },
    415,
    "unsupported_media_type",
  ],
  ["POST /tasks/2/approve", {}, 415, "unsupported_media_type"],
  ["POST /queue/pause", { body: "{}", ...headers({ "content-type": "text/plain" }) }, 415, "unsupported_media_type"],
  ["POST /tasks", json(""), 400, "malformed_json"],
  ["POST /tasks", json("{"), 400, "malformed_json"],
  ["POST /tasks", json("{'title': 1}"), 400, "malformed_json"],
  [
    "POST /tasks",
    { body: new Uint8Array([0x22, 0xff, 0x22]), ...headers({ "content-type": "application/json" }) },
    400,
    "malformed_json",
  ],
  ["POST /tasks/1/cancel", json("{]"), 400, "malformed_json"],
  ["POST /tasks/3/return", json(""), 400, "malformed_json"],
  ["POST /queue/resume", json("nonsense"), 400, "malformed_json"],
  ["POST /tasks", json(JSON.stringify({ title: "x".repeat(MAX_BODY_BYTES) })), 413, "body_too_large"],
  ["POST /tasks/1/cancel", json(JSON.stringify({ reason: "x".repeat(MAX_BODY_BYTES) })), 413, "body_too_large"],
  ["POST /queue/pause", { body: new Uint8Array(MAX_BODY_BYTES + 1) }, 413, "body_too_large"],

  ["POST /tasks", json([]), 422, "invalid_input", NO_OBJECT],
  ["POST /tasks", json("null"), 422, "invalid_input", NO_OBJECT],
  ["POST /tasks", json("7"), 422, "invalid_input", NO_OBJECT],
  [
    "POST /tasks",
    json({}),
    422,
    "invalid_input",
    { work_item_id: "is required", title: "is required", repo: "is required" },
  ],
  ["POST /tasks", json({ ...MINIMAL, work_item_id: "9" }), 422, "invalid_input", { work_item_id: ID }],
  ["POST /tasks", json({ ...MINIMAL, work_item_id: "a/x" }), 422, "invalid_input", { work_item_id: ID }],
  [
    "POST /tasks",
    json({ ...MINIMAL, work_item_id: "a..b" }),
    422,
    "invalid_input",
    { work_item_id: "must not hold '..'" },
  ],
  ["POST /tasks", json({ ...MINIMAL, title: "a\u0000b" }), 422, "invalid_input", { title: CONTROL }],
  ["POST /tasks", json({ ...MINIMAL, title: "  " }), 422, "invalid_input", { title: BLANK }],
  ["POST /tasks", json({ ...MINIMAL, description: "\u001b[31m" }), 422, "invalid_input", { description: CONTROL }],
  ["POST /tasks", json({ ...MINIMAL, branch: "--upload-pack=x" }), 422, "invalid_input", { branch: BRANCH }],
  [
    "POST /tasks",
    json({ ...MINIMAL, branch: "main" }),
    422,
    "invalid_input",
    {
      branch: "must not be the base branch (main) nor the repository's default branch (main)",
    },
  ],
  ["POST /tasks", json({ ...MINIMAL, base_branch: "a b" }), 422, "invalid_input", { base_branch: BRANCH }],
  ["POST /tasks", json({ ...MINIMAL, priority: 1.5 }), 422, "invalid_input", { priority: "must be a whole number" }],
  ["POST /tasks", json({ ...MINIMAL, priority: 1001 }), 422, "invalid_input", { priority: "must be at most 1000" }],
  [
    "POST /tasks",
    json({ ...MINIMAL, stage: "coffee" }),
    422,
    "invalid_input",
    {
      stage:
        "must be a stage of the pipeline: analysis, architecture, development, review, testing, deploy-staging, deploy",
    },
  ],
  [
    "POST /tasks",
    json({ ...MINIMAL, stage: "done" }),
    422,
    "invalid_input",
    {
      stage:
        "must be a stage of the pipeline: analysis, architecture, development, review, testing, deploy-staging, deploy",
    },
  ],
  [
    "POST /tasks",
    json({ ...MINIMAL, id: 1, status: "done", workItemId: "a" }),
    422,
    "invalid_input",
    {
      id: UNKNOWN,
      status: UNKNOWN,
      workItemId: UNKNOWN,
    },
  ],
  [
    "POST /tasks",
    json('{"work_item_id":"A","title":"x","repo":"shop","__proto__":{},"constructor":1}'),
    422,
    "invalid_input",
    {
      ["__proto__"]: UNKNOWN,
      constructor: UNKNOWN,
    },
  ],
  [
    "POST /tasks",
    json({ work_item_id: 1, title: [], repo: null, extra: 0, priority: "1" }),
    422,
    "invalid_input",
    {
      work_item_id: TEXT,
      title: TEXT,
      repo: TEXT,
      extra: UNKNOWN,
      priority: "must be of type number",
    },
  ],
  ["POST /tasks", json({ ...MINIMAL, repo: "shopp" }), 422, "unknown_repo"],
  ["POST /tasks", json({ ...MINIMAL, repo: "__proto__" }), 422, "unknown_repo"],
  ["POST /tasks", json({ ...MINIMAL, repo: "https://evil.example/x.git" }), 422, "unknown_repo"],
  ["POST /tasks", json({ ...MINIMAL, work_item_id: "ORCH-1" }), 409, "work_item_exists"],
  ["POST /tasks", json({ ...MINIMAL, work_item_id: "ORCH-4" }), 409, "work_item_exists"],
  ["POST /tasks", json({ ...MINIMAL, branch: "work/ORCH-1" }), 409, "branch_taken"],
  ["POST /tasks", json({ ...MINIMAL, branch: "work/ORCH-3" }), 409, "branch_taken"],

  ["GET /tasks?status=gone", {}, 422, "invalid_input", { status: TASK_STATUSES }],
  ["GET /tasks?status=", {}, 422, "invalid_input", { status: TASK_STATUSES }],
  ["GET /tasks?limit=0", {}, 422, "invalid_input", { limit: LIMIT }],
  [
    "GET /tasks?limit=1e2&cursor=1&page=2&toString=1",
    {},
    422,
    "invalid_input",
    {
      limit: LIMIT,
      cursor: CURSOR,
      page: UNKNOWN,
      toString: UNKNOWN,
    },
  ],
  ["GET /tasks?limit=1&limit=2&sort=id", {}, 422, "invalid_input", { limit: ONCE, sort: UNKNOWN }],
  ["GET /tasks?stage=%00", {}, 422, "invalid_input", { stage: CONTROL }],
  ["GET /tasks/99", {}, 404, "not_found"],
  ["GET /tasks/ORCH-99", {}, 404, "not_found"],
  ["GET /tasks/a%2Fb", {}, 404, "not_found"],
  ["GET /tasks/%ff", {}, 404, "not_found"],

  ["POST /tasks/99/cancel", {}, 404, "not_found"],
  ["POST /tasks/1'--/cancel", {}, 404, "not_found"],
  ["POST /tasks/1/cancel", json({ reason: "" }), 422, "invalid_input", { reason: BLANK }],
  [
    "POST /tasks/1/cancel",
    json({ reason: LONG }),
    422,
    "invalid_input",
    { reason: "must be at most 10000 characters long" },
  ],
  ["POST /tasks/1/cancel", json({ force: true, note: "x" }), 422, "invalid_input", { force: UNKNOWN, note: UNKNOWN }],
  ["POST /tasks/1/cancel", json("[]"), 422, "invalid_input", NO_OBJECT],
  ["POST /tasks/4/cancel", {}, 409, "invalid_state"],
  ["POST /tasks/ORCH-5/cancel", {}, 409, "invalid_state"],
  ["POST /tasks/99/retry", {}, 404, "not_found"],
  ["POST /tasks/3/retry", json({ note: 7 }), 422, "invalid_input", { note: TEXT }],
  ["POST /tasks/3/retry", json({ note: "a\u0007" }), 422, "invalid_input", { note: CONTROL }],
  [
    "POST /tasks/3/retry",
    json({ reason: "x", stage: "review" }),
    422,
    "invalid_input",
    { reason: UNKNOWN, stage: UNKNOWN },
  ],
  ["POST /tasks/1/retry", {}, 409, "invalid_state"],
  ["POST /tasks/2/retry", {}, 409, "invalid_state"],
  ["POST /tasks/99/approve", json({ stage: "deploy" }), 404, "not_found"],
  ["POST /tasks/2/approve", json({}), 422, "invalid_input", { stage: "is required" }],
  ["POST /tasks/2/approve", json({ stage: "" }), 422, "invalid_input", { stage: "must not be empty" }],
  ["POST /tasks/2/approve", json({ stage: ["deploy"], by: "me" }), 422, "invalid_input", { stage: TEXT, by: UNKNOWN }],
  ["POST /tasks/2/approve", json({ stage: "review" }), 409, "invalid_state"],
  ["POST /tasks/3/approve", json({ stage: "review" }), 409, "invalid_state"],
  ["POST /tasks/99/return", json(RETURN), 404, "not_found"],
  ["POST /tasks/3/return", json({}), 422, "invalid_input", { to: "is required", reason: "is required" }],
  ["POST /tasks/3/return", json({ ...RETURN, reason: "\n" }), 422, "invalid_input", { reason: BLANK }],
  [
    "POST /tasks/3/return",
    json({ ...RETURN, to: "x".repeat(101) }),
    422,
    "invalid_input",
    { to: "must be at most 100 characters long" },
  ],
  [
    "POST /tasks/3/return",
    json({ ...RETURN, to: "review" }),
    422,
    "invalid_input",
    {
      to: "must be a stage before review, where the task stands: analysis, architecture, development",
    },
  ],
  ["POST /tasks/1/return", json(RETURN), 409, "invalid_state"],
  ["POST /tasks/4/return", json(RETURN), 409, "invalid_state"],

  ["GET /jobs?status=active", {}, 422, "invalid_input", { status: JOB_STATUSES }],
  [
    "GET /jobs?task_id=ORCH-1",
    {},
    422,
    "invalid_input",
    { task_id: "must be a whole number from 1 to 999999999999999" },
  ],
  [
    "GET /jobs?task_id=0&agent=x",
    {},
    422,
    "invalid_input",
    {
      task_id: "must be a whole number from 1 to 999999999999999",
      agent: UNKNOWN,
    },
  ],
  ["GET /jobs?cursor=YWZ0ZXIgMA==", {}, 422, "invalid_input", { cursor: CURSOR }],
  ["GET /jobs?limit=201", {}, 422, "invalid_input", { limit: LIMIT }],
  ["GET /jobs/99", {}, 404, "not_found"],
  ["GET /jobs/1.0", {}, 404, "not_found"],
  ["GET /runs/99", {}, 404, "not_found"],
  ["GET /runs/ORCH-1", {}, 404, "not_found"],
  ["GET /runs/99/log", {}, 404, "not_found"],
  ["GET /runs/1/log", {}, 404, "not_found"],
  ["GET /runs/..%2f..%2fetc%2fpasswd/log", {}, 404, "not_found"],
  ["GET /runs/1/log?tail=-1", {}, 422, "invalid_input", { tail: LARGE }],
  [
    "GET /runs/1/log?tail=10k&follow=yes",
    {},
    422,
    "invalid_input",
    { tail: LARGE, follow: "must be one of: true, false" },
  ],
  [
    "GET /runs/1/log?follow=&offset=3",
    {},
    422,
    "invalid_input",
    { follow: "must be one of: true, false", offset: UNKNOWN },
  ],

  ["GET /events", headers({ "last-event-id": "abc" }), 422, "invalid_input", { "Last-Event-ID": LARGE }],
  ["GET /events?last_event_id=-1&task_id=1", {}, 422, "invalid_input", { last_event_id: LARGE, task_id: UNKNOWN }],

  ["POST /queue/pause", json({ agent: "nobody" }), 422, "invalid_input", { agent: AGENTS }],
  [
    "POST /queue/pause",
    json({ repo: "nowhere", agent: "nobody" }),
    422,
    "invalid_input",
    { agent: AGENTS, repo: REPOS },
  ],
  ["POST /queue/pause", json({ staging: false }), 422, "invalid_input", { staging: "must be true" }],
  ["POST /queue/pause", json({ all: true, what: "all" }), 422, "invalid_input", { all: UNKNOWN, what: UNKNOWN }],
  [
    "POST /queue/pause",
    json({ agent: "", reason: "" }),
    422,
    "invalid_input",
    { agent: "must not be empty", reason: BLANK },
  ],
  ["POST /queue/pause", json("true"), 422, "invalid_input", NO_OBJECT],
  ["POST /queue/resume", json({ agent: "nobody" }), 422, "invalid_input", { agent: AGENTS }],
  ["POST /queue/resume", json({ repo: ["shop"] }), 422, "invalid_input", { repo: TEXT }],
  ["GET /queue?format=xml", {}, 422, "invalid_input", { format: "must be one of: json, prometheus" }],
];
