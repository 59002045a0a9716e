import { describe, expect, test } from "vitest";
import type { HttpAnswer } from "../../services/stager/http_check.ts";
import type { Command } from "../../services/stager/plan.ts";
import { programKind } from "../../services/stager/program_kind.ts";
import {
  chooseAction,
  judgeStep,
  type ProgramKind,
  type StepEnding,
  type StepVerdict,
} from "../../services/stager/verdict.ts";

const exited = (program: ProgramKind, code: number): StepEnding => ({ kind: "exited", program, code });
const signalled = (signal: string): StepEnding => ({ kind: "signalled", signal });
const unusable = (program: ProgramKind, problem: "not_found" | "not_executable"): StepEnding => ({
  kind: "unusable",
  program,
  command: "x",
  problem,
});
const answered = (kind: HttpAnswer["kind"]): StepEnding => ({
  kind: "answered",
  answer: { kind, reason: "why" },
  attempts: 1,
});
const timedOut = (limit: "step" | "run"): StepEnding => ({ kind: "timed_out", limit, limitMs: 1500 });

/** The verdict, and the class of a tool error. */
const brief = (verdict: StepVerdict): string =>
  verdict.verdict === "tool_error" ? `tool_error ${verdict.class}` : verdict.verdict;

describe("judgeStep", () => {
  test.each<[string, StepEnding, string]>([
    ["exit 0", exited("command", 0), "passed"],
    ["exit 1", exited("command", 1), "failed"],
    ["exit 255", exited("own", 255), "failed"],
    ["EX_TEMPFAIL", exited("command", 75), "tool_error infra_exit"],
    ["EX_TEMPFAIL of a script of the branch", exited("own", 75), "tool_error infra_exit"],
    ["EX_TEMPFAIL of a shell", exited("shell", 75), "tool_error infra_exit"],

    ["SEGV", signalled("SIGSEGV"), "failed"],
    ["ABRT", signalled("SIGABRT"), "failed"],
    ["BUS", signalled("SIGBUS"), "failed"],
    ["FPE", signalled("SIGFPE"), "failed"],
    ["ILL", signalled("SIGILL"), "failed"],
    ["KILL", signalled("SIGKILL"), "tool_error killed"],
    ["TERM", signalled("SIGTERM"), "tool_error killed"],
    ["INT", signalled("SIGINT"), "tool_error killed"],
    ["HUP", signalled("SIGHUP"), "tool_error killed"],
    ["PIPE", signalled("SIGPIPE"), "tool_error killed"],
    ["XCPU", signalled("SIGXCPU"), "tool_error killed"],

    ["137 from a shell", exited("shell", 137), "tool_error killed"],
    ["143 from a shell", exited("shell", 143), "tool_error killed"],
    ["139 from a shell: SEGV", exited("shell", 139), "failed"],
    ["134 from a shell: ABRT", exited("shell", 134), "failed"],
    ["130 from a shell", exited("shell", 130), "failed"],
    ["137 from a command", exited("command", 137), "failed"],
    ["143 from a script of the branch", exited("own", 143), "failed"],
    ["126 from a shell", exited("shell", 126), "failed"],
    ["127 from a shell", exited("shell", 127), "failed"],
    ["126 from a script", exited("own", 126), "failed"],
    ["127 from a script", exited("own", 127), "failed"],

    ["out of its own time", timedOut("step"), "failed"],
    ["out of the run's time", timedOut("run"), "failed"],

    ["a command that is not there", unusable("command", "not_found"), "tool_error command_not_found"],
    ["a command that cannot be run", unusable("command", "not_executable"), "tool_error command_not_executable"],
    ["a shell that is not there", unusable("shell", "not_found"), "tool_error command_not_found"],
    ["a file of the machine that is not there", unusable("absolute", "not_found"), "tool_error command_not_found"],
    ["a script of the branch that is not there", unusable("own", "not_found"), "failed"],
    ["a script of the branch that cannot be run", unusable("own", "not_executable"), "failed"],
    ["no process to be had", { kind: "not_spawned", message: "EAGAIN" }, "tool_error spawn"],

    ["the right answer", answered("right"), "passed"],
    ["refused", answered("refused"), "failed"],
    ["reset", answered("reset"), "failed"],
    ["slow", answered("slow"), "failed"],
    ["wrong", answered("wrong"), "failed"],
    ["no such name", answered("name_resolution"), "tool_error name_resolution"],
    ["no way there", answered("routing"), "tool_error routing"],
    ["a bad certificate", answered("certificate"), "tool_error certificate"],
    ["no socket to be had", answered("local"), "tool_error http_client"],
  ])("%s", (_, ending, expected) => expect(brief(judgeStep(ending, [75]))).toBe(expected));

  test("the plan's own infra_exit_codes stand in place of 75", () => {
    expect(brief(judgeStep(exited("command", 75), [69]))).toBe("failed");
    expect(brief(judgeStep(exited("command", 69), [69]))).toBe("tool_error infra_exit");
    expect(brief(judgeStep(exited("shell", 127), [127]))).toBe("tool_error infra_exit");
    expect(brief(judgeStep(exited("command", 0), [0]))).toBe("passed");
  });

  test("a reason says what a person needs", () => {
    const reason = (ending: StepEnding): string => {
      const verdict = judgeStep(ending, [75]);
      return verdict.verdict === "passed" ? "" : verdict.reason;
    };
    expect(reason(timedOut("step"))).toBe("did not end within its 1.5 s");
    expect(reason(timedOut("run"))).toBe("did not end within the 1.5 s of the whole run");
    expect(reason(unusable("command", "not_found"))).toBe("x is not found on the stager's machine");
    expect(reason(unusable("own", "not_executable"))).toBe("x of the branch is not executable");
    expect(reason({ kind: "answered", answer: { kind: "refused", reason: "why" }, attempts: 10 })).toBe(
      "why (10 attempts)",
    );
  });
});

describe("programKind", () => {
  test.each<[Command, ProgramKind]>([
    [{ kind: "shell", script: "exit 1" }, "shell"],
    [{ kind: "argv", argv: ["sh", "-c", "exit 1"] }, "shell"],
    [{ kind: "argv", argv: ["/bin/bash", "x"] }, "shell"],
    [{ kind: "argv", argv: ["./bash"] }, "own"],
    [{ kind: "argv", argv: ["npm", "run"] }, "command"],
    [{ kind: "argv", argv: ["./scripts/x"] }, "own"],
    [{ kind: "argv", argv: ["scripts/x"] }, "own"],
    [{ kind: "argv", argv: ["../x"] }, "own"],
    [{ kind: "argv", argv: ["/usr/bin/docker"] }, "absolute"],
  ])("%j is %s", (command, kind) => expect(programKind(command)).toBe(kind));
});

describe("chooseAction", () => {
  const never = () => {
    throw new Error("asked for a decision that is not needed");
  };

  test.each([
    ["success", never, "advance"],
    ["failed", never, "return"],
    ["tool_error", () => ({ kind: "defer", availableAtMs: 0, n: 0 }) as const, "defer"],
    ["tool_error", () => ({ kind: "block", reason: "used up" }) as const, "block"],
  ] as const)("%s", (verdict, decision, action) => expect(chooseAction(verdict, decision)).toBe(action));
});
