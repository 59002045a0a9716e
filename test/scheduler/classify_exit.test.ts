import { expect, test } from "vitest";
import { classifyExit } from "../../services/scheduler/classify_exit.ts";

test.each([
  [0, null, { kind: "exited_ok" }],
  [1, null, { kind: "failed", reason: "the agent exited with code 1" }],
  [75, null, { kind: "failed" }],
  [126, null, { kind: "failed" }],
  [127, null, { kind: "failed" }],
  [137, null, { kind: "failed", reason: "the agent exited with code 137" }],
  [null, "SIGSEGV", { kind: "failed", reason: "the agent crashed (SIGSEGV)" }],
  [null, "SIGABRT", { kind: "failed" }],
  [null, "SIGBUS", { kind: "failed" }],
  [null, "SIGFPE", { kind: "failed" }],
  [null, "SIGILL", { kind: "failed" }],
  [null, "SIGKILL", { kind: "tool_error", code: "killed", reason: expect.stringContaining("memory") }],
  [null, "SIGTERM", { kind: "tool_error", code: "killed", reason: expect.stringContaining("SIGTERM") }],
  [null, "SIGHUP", { kind: "tool_error", code: "killed" }],
  [null, "SIGXCPU", { kind: "tool_error", code: "killed" }],
  [null, null, { kind: "failed", reason: "the agent ended without an exit code" }],
])("code %s, signal %s", (code, signal, expected) => {
  expect(classifyExit({ code, signal })).toMatchObject(expected);
});
