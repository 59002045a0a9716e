import type { DeferDecision } from "@orchestrator/shared/defer.ts";
import { CRASH_SIGNALS } from "@orchestrator/shared/process/crash_signals.ts";
import type { StagingAction, Verdict } from "@orchestrator/shared/schemas/staging_run.ts";
import type { HttpAnswer } from "./http_check.ts";

/** How the program of a step is named in the plan: that decides whose fault it is when it cannot be run. */
export type ProgramKind =
  /** A string for `sh -c`, or an argv that begins with a shell. */
  | "shell"
  /** An argv with a bare command name, looked up in PATH: the machine's to provide. */
  | "command"
  /** An argv with an absolute path: the machine's to provide as well. */
  | "absolute"
  /** An argv with a relative path: a program of the branch itself. */
  | "own";

/** How a step ended, before anyone judges it. */
export type StepEnding =
  | { kind: "exited"; program: ProgramKind; code: number }
  | { kind: "signalled"; signal: string }
  | { kind: "timed_out"; limit: "step" | "run"; limitMs: number }
  | { kind: "unusable"; program: ProgramKind; command: string; problem: "not_found" | "not_executable" }
  /** The operating system refused a process: too many of them, no memory. */
  | { kind: "not_spawned"; message: string }
  /** An http check's last answer; `attempts` is null where its time was over before it had made all of them. */
  | { kind: "answered"; answer: HttpAnswer; attempts: number | null };

export type StepVerdict =
  | { verdict: "passed" }
  | { verdict: "failed"; reason: string }
  | { verdict: "tool_error"; class: string; reason: string };

/** How a shell tells that what it ran was killed: 128 + SIGKILL, 128 + SIGTERM. */
const SHELL_KILLED = new Map([
  [137, "SIGKILL"],
  [143, "SIGTERM"],
]);

const passed: StepVerdict = { verdict: "passed" };
const failed = (reason: string): StepVerdict => ({ verdict: "failed", reason });
const toolError = (errorClass: string, reason: string): StepVerdict => ({
  verdict: "tool_error",
  class: errorClass,
  reason,
});

/**
 * Whose fault an ending is: `failed` is the work's, `tool_error` says nothing about it. Reasons hold no times or counts that
 * differ between two runs of the same commit.
 */
export const judgeStep = (ending: StepEnding, infraExitCodes: readonly number[] = []): StepVerdict => {
  switch (ending.kind) {
    case "exited":
      return judgeExit(ending, infraExitCodes);
    case "signalled":
      return CRASH_SIGNALS.has(ending.signal)
        ? failed(`died of ${ending.signal}`)
        : toolError("killed", `was ended by ${ending.signal}, which the staging runner did not send`);
    case "timed_out":
      return failed(
        ending.limit === "step"
          ? `did not end within its ${ending.limitMs / 1000} s`
          : `did not end within the ${ending.limitMs / 1000} s of the whole run`,
      );
    case "unusable":
      return judgeUnusable(ending);
    case "not_spawned":
      return toolError("spawn", `could not be started: ${ending.message}`);
    case "answered":
      return judgeAnswer(ending.answer, ending.attempts);
  }
};

const judgeExit = (
  { code, program }: Extract<StepEnding, { kind: "exited" }>,
  infraExitCodes: readonly number[],
): StepVerdict => {
  if (code === 0) return passed;
  if (infraExitCodes.includes(code)) {
    return toolError("infra_exit", `exited with ${code}, which the plan's infra_exit_codes name`);
  }
  const signal = SHELL_KILLED.get(code);
  if (program === "shell" && signal !== undefined) {
    return toolError("killed", `exited with ${code}: what the shell ran was ended by ${signal}`);
  }
  return failed(`exited with ${code}`);
};

const judgeUnusable = ({ program, command, problem }: Extract<StepEnding, { kind: "unusable" }>): StepVerdict => {
  const found = problem === "not_found" ? "not found" : "not executable";
  return program === "own"
    ? failed(`${command} of the branch is ${found}`)
    : toolError(`command_${problem}`, `${command} is ${found} on the stager's machine`);
};

const judgeAnswer = (answer: HttpAnswer, attempts: number | null): StepVerdict => {
  const tried = attempts === null || attempts === 1 ? "" : ` (${attempts} attempts)`;
  switch (answer.kind) {
    case "right":
      return passed;
    case "refused":
    case "reset":
    case "slow":
    case "wrong":
      return failed(`${answer.reason}${tried}`);
    case "name_resolution":
    case "routing":
    case "certificate":
    case "local":
      return toolError(answer.kind === "local" ? "http_client" : answer.kind, `${answer.reason}${tried}`);
  }
};

/** What the scheduler is to do; `decision` is asked for a `tool_error` only. */
export const chooseAction = (verdict: Verdict, decision: () => DeferDecision): StagingAction => {
  switch (verdict) {
    case "success":
      return "advance";
    case "failed":
      return "return";
    case "tool_error":
      return decision().kind;
  }
};
