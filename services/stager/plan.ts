import type { CommittedFile } from "@orchestrator/shared/artifact.ts";
import { showValue } from "@orchestrator/shared/config/fault.ts";
import { MAX_YAML_BYTES, readYaml } from "@orchestrator/shared/read_yaml.ts";
import * as v from "valibot";
import { fillInUrl } from "./placeholders.ts";
import { describeIssue, type Fault } from "./plan_faults.ts";

/** Where the plan stands in the repository. */
export const PLAN_PATH = ".orchestrator/staging.yaml";

/** A plan is a page or two; what is larger is not a plan, and its arguments would not fit into a command line. */
export const MAX_PLAN_BYTES = MAX_YAML_BYTES;

/** One mistake that was copied to every step need not be told a hundred times. */
const MAX_FAULTS = 30;

const MAX_STEPS = 100;
const MAX_TEARDOWN_STEPS = 20;
const MAX_SECONDS = 24 * 3600;
const DEFAULT_RUN_TIMEOUT_S = 900;
/** The run's own limit may have passed when the teardown begins, so each of its steps has one by itself. */
const DEFAULT_TEARDOWN_TIMEOUT_S = 60;
/** EX_TEMPFAIL of sysexits.h. */
const DEFAULT_INFRA_EXIT_CODES = [75];

export const HTTP_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] as const;

export type Command = { kind: "argv"; argv: readonly [string, ...string[]] } | { kind: "shell"; script: string };

/** One http check as the plan states it; placeholders are still in it. */
export interface HttpCheck {
  method: (typeof HTTP_METHODS)[number];
  url: string;
  headers: Readonly<Record<string, string>>;
  status: number;
  /** Text that the answer must contain; null: the status is enough. */
  body: string | null;
  attempts: number;
  intervalMs: number;
  /** For one attempt. */
  timeoutMs: number;
}

export type PlanStep =
  | { kind: "run"; name: string; timeoutMs: number | null; command: Command; infraExitCodes: readonly number[] }
  | { kind: "http"; name: string; timeoutMs: number | null; http: HttpCheck };

export interface Plan {
  /** For all the steps together, without the teardown. */
  timeoutMs: number;
  env: Readonly<Record<string, string>>;
  steps: readonly PlanStep[];
  teardown: readonly PlanStep[];
}

export type PlanReading = { kind: "plan"; plan: Plan } | { kind: "invalid"; faults: string[] };

const text = (maxLength: number) =>
  v.pipe(
    v.string("text"),
    v.minLength(1, "text that is not empty"),
    v.maxLength(maxLength, `at most ${maxLength} characters`),
    v.check((value) => !value.includes("\0"), "text without NUL"),
  );

const stepName = v.pipe(
  text(100),
  v.regex(/^[^\p{C}\p{Zl}\p{Zp}]+$/u, "one line of text without control characters"),
  v.check((name) => name.trim() === name, "a name without blanks around it"),
);

const seconds = (min: number) =>
  v.pipe(
    v.number(`seconds as a number from ${min} to ${MAX_SECONDS}`),
    v.minValue(min, `seconds as a number from ${min} to ${MAX_SECONDS}`),
    v.maxValue(MAX_SECONDS, `seconds as a number from ${min} to ${MAX_SECONDS}`),
  );
const timeout = seconds(0.001);

const whole = (min: number, max: number) => {
  const expected = `a whole number from ${min} to ${max}`;
  return v.pipe(v.number(expected), v.integer(expected), v.minValue(min, expected), v.maxValue(max, expected));
};

const environmentName = v.pipe(
  v.string(),
  v.regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "a name of letters, digits and _"),
  v.check((name) => !name.startsWith("ORCH_"), "another name: those with ORCH_ are set by the staging runner"),
);

const headerName = v.pipe(v.string(), v.regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, "the name of a header"));
const headerValue = v.pipe(
  v.string("text (put it in quotes)"),
  v.regex(/^[^\u0000-\u0008\u000a-\u001f\u007f]*$/, "one line of text"),
);

const isHttpUrl = (url: string): boolean => {
  const filled = fillInUrl(url, { commit: "0".repeat(40), branch: "b", work_item_id: "W" });
  return URL.canParse(filled) && /^https?:$/.test(new URL(filled).protocol);
};

type RunData = string | [string, ...string[]];

const isRunData = (value: unknown): boolean => {
  const words: unknown[] = Array.isArray(value) ? value : [value];
  return (
    words.every((word) => typeof word === "string" && !word.includes("\0")) && words[0] !== undefined && words[0] !== ""
  );
};

const httpSchema = v.strictObject(
  {
    method: v.optional(v.picklist(HTTP_METHODS, `one of ${HTTP_METHODS.join(", ")}`), "GET"),
    url: v.pipe(text(2000), v.check(isHttpUrl, "an http:// or https:// URL")),
    headers: v.optional(v.record(headerName, headerValue, "a mapping of names to text"), {}),
    status: v.optional(whole(200, 599), 200),
    body: v.optional(text(10_000)),
    attempts: v.optional(whole(1, 1000), 1),
    interval_s: v.optional(seconds(0), 1),
    timeout_s: v.optional(timeout, 5),
  },
  "a mapping that describes a request",
);

const stepSchema = v.pipe(
  v.strictObject({
    name: stepName,
    run: v.optional(v.custom<RunData>(isRunData, "a list (program and arguments, all text) or a string (for sh -c)")),
    http: v.optional(httpSchema),
    timeout_s: v.optional(timeout),
    infra_exit_codes: v.optional(v.pipe(v.array(whole(1, 255), "a list"), v.maxLength(50, "at most 50 codes"))),
  }),
  v.check((step) => (step.run === undefined) !== (step.http === undefined), "either run or http, and not both"),
  v.check(
    (step) => step.http === undefined || step.infra_exit_codes === undefined,
    "infra_exit_codes beside run only: an http check has no exit code",
  ),
);

const stepList = (min: number, max: number) => {
  const expected = min === 0 ? `at most ${max} steps` : `from ${min} to ${max} steps`;
  return v.pipe(
    v.array(stepSchema, `a list of ${expected}`),
    v.minLength(min, expected),
    v.maxLength(max, expected),
    v.check((steps) => new Set(steps.map((step) => step.name)).size === steps.length, "a different name for each step"),
  );
};

const planSchema = v.strictObject({
  version: v.literal(1, "1"),
  timeout_s: v.optional(timeout, DEFAULT_RUN_TIMEOUT_S),
  env: v.optional(
    v.record(
      environmentName,
      v.pipe(
        v.string("text (put it in quotes)"),
        v.check((value) => !value.includes("\0"), "text without NUL"),
      ),
      "a mapping of names to text",
    ),
    {},
  ),
  steps: stepList(1, MAX_STEPS),
  teardown: v.optional(stepList(0, MAX_TEARDOWN_STEPS), []),
});

/**
 * Reads the staging plan of a commit. Everything that is wrong with it is said at once, each fault with the key it is about
 * and, for the syntax, its line: whoever wrote the plan is told through the artifact.
 */
export const readPlan = (file: CommittedFile): PlanReading => {
  switch (file.kind) {
    case "missing":
      return invalid(
        "there is no such file at this commit: commit one (version: 1, and steps that each have a name and run or http)",
      );
    case "not_regular":
      return invalid(`expected a regular file, found git mode ${file.mode}`);
    case "too_large":
      return invalid(`the file has ${file.bytes} bytes, at most ${MAX_PLAN_BYTES} are read`);
    case "file":
      return file.content.byteLength > MAX_PLAN_BYTES
        ? invalid(`the file has ${file.content.byteLength} bytes, at most ${MAX_PLAN_BYTES} are read`)
        : readPlanText(file.content);
  }
};

const invalid = (...faults: Fault[]): PlanReading => ({
  kind: "invalid",
  faults:
    faults.length <= MAX_FAULTS
      ? faults
      : [...faults.slice(0, MAX_FAULTS), `and ${faults.length - MAX_FAULTS} faults more`],
});

const readPlanText = (content: Uint8Array): PlanReading => {
  let source: string;
  try {
    source = new TextDecoder("utf-8", { fatal: true }).decode(content);
  } catch (error) {
    if (error instanceof TypeError) return invalid("the file is not UTF-8");
    throw error;
  }
  const yaml = readYaml(source);
  if (yaml.kind === "error") return invalid(`line ${yaml.line}: ${yaml.message}`);
  if (typeof yaml.value !== "object" || yaml.value === null || Array.isArray(yaml.value)) {
    return invalid(
      `found ${showValue(yaml.value)}, accepted: a mapping with version, steps and, where needed, timeout_s, env, teardown`,
    );
  }
  const result = v.safeParse(planSchema, yaml.value, { abortPipeEarly: true });
  return result.success
    ? { kind: "plan", plan: toPlan(result.output) }
    : invalid(...result.issues.map((issue) => describeIssue(issue, yaml.lineOf)));
};

type PlanData = v.InferOutput<typeof planSchema>;
type StepData = PlanData["steps"][number];

const toPlan = (data: PlanData): Plan => ({
  timeoutMs: data.timeout_s * 1000,
  env: data.env,
  steps: data.steps.map((step) => toStep(step, null)),
  teardown: data.teardown.map((step) => toStep(step, DEFAULT_TEARDOWN_TIMEOUT_S * 1000)),
});

const toStep = (step: StepData, defaultTimeoutMs: number | null): PlanStep => {
  const common = {
    name: step.name,
    timeoutMs: step.timeout_s === undefined ? defaultTimeoutMs : step.timeout_s * 1000,
  };
  if (step.http !== undefined) {
    const { method, url, headers, status, body = null, attempts, interval_s, timeout_s } = step.http;
    const http = { method, url, headers, status, body, attempts };
    return { kind: "http", ...common, http: { ...http, intervalMs: interval_s * 1000, timeoutMs: timeout_s * 1000 } };
  }
  return {
    kind: "run",
    ...common,
    command: toCommand(step.run!),
    infraExitCodes: step.infra_exit_codes ?? DEFAULT_INFRA_EXIT_CODES,
  };
};

const toCommand = (run: RunData): Command =>
  typeof run === "string" ? { kind: "shell", script: run } : { kind: "argv", argv: run };
