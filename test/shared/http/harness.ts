import { systemClock } from "@orchestrator/shared/clock.ts";
import { createBaseApp } from "@orchestrator/shared/http/base_app.ts";
import type { GuardOptions } from "@orchestrator/shared/http/guard.ts";
import type { InputError, ProblemCode } from "@orchestrator/shared/http/problem.ts";
import { createLog, type Log } from "@orchestrator/shared/log.ts";

export interface CapturedLog {
  log: Log;
  /** What has been logged so far, line by line. */
  lines: () => Record<string, unknown>[];
}

export const captureLog = (secrets: readonly string[] = []): CapturedLog => {
  const written: string[] = [];
  const destination = { write: (line: string) => void written.push(line) };
  return {
    log: createLog({ level: "debug", service: "scheduler", secrets, destination }),
    lines: () => written.map((line) => JSON.parse(line) as Record<string, unknown>),
  };
};

export const createTestApp = (guard: Partial<GuardOptions> = {}) => {
  const captured = captureLog();
  const app = createBaseApp({
    log: captured.log,
    clock: systemClock,
    guard: { token: null, openPaths: [], ...guard },
  });
  return { app, ...captured };
};

export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: ProblemCode;
  errors?: InputError[];
}

/** The problem in an answer; fails where the answer is none or says two things. */
export const problemOf = async (answer: Response): Promise<Problem> => {
  const type = answer.headers.get("content-type");
  if (type !== "application/problem+json") throw new Error(`not a problem but ${answer.status} ${type}`);
  const problem = (await answer.json()) as Problem;
  if (problem.status !== answer.status) throw new Error(`status ${answer.status} says that it is ${problem.status}`);
  return problem;
};

/** Status and code, which is what most tests are about. */
export const statusAndCode = async (answer: Response): Promise<[number, ProblemCode]> => {
  const { status, code } = await problemOf(answer);
  return [status, code];
};

export const postJson = (body: unknown, headers: Record<string, string> = {}): RequestInit => ({
  method: "POST",
  body: typeof body === "string" ? body : JSON.stringify(body),
  headers: { "content-type": "application/json", ...headers },
});
