import { expect, test } from "vitest";
import { classifyExit, decideExit } from "../../services/scheduler/classify_exit.ts";

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

const OK = { code: 0, signal: null };
const KILLED = { code: null, signal: "SIGKILL" } as const;
const STALLED = { outcome: "stalled", class: null, reason: "no output for 30 min" } as const;
const STOPPED = { outcome: "interrupted", class: null, reason: "the scheduler was stopped" } as const;
const CANCELLED = { outcome: "cancelled", class: null, reason: "by a person" } as const;
const FAILED = { outcome: "failed", reason: "the agent exited with code 3" };

test.each([
  ["exits 0", null, OK, true, OK, null],
  ["exits 0, and its note cannot be read", null, OK, false, OK, null],
  ["exits 0, and its keeper is killed after the note", null, KILLED, true, OK, null],
  ["fails", null, { code: 3, signal: null }, false, { code: 3, signal: null }, FAILED],
  ["is killed by somebody", null, KILLED, false, KILLED, { outcome: "tool_error", class: "killed" }],
  ["is ended because it stalled", STALLED, KILLED, false, KILLED, STALLED],
  ["exits 0 because it was told to end", STOPPED, OK, false, { code: 0, signal: "SIGTERM" }, STOPPED],
  [
    "fails because it was told to end",
    STOPPED,
    { code: 3, signal: null },
    false,
    { code: 3, signal: "SIGTERM" },
    STOPPED,
  ],
  ["had finished when it was told to end", STOPPED, KILLED, true, OK, null],
  ["had finished when its task was cancelled", CANCELLED, OK, true, { code: 0, signal: "SIGTERM" }, CANCELLED],
] as const)("an agent that %s", (_, endReason, keeperExit, isNoted, recorded, ended) => {
  expect(decideExit({ endReason, keeperExit, isNoted })).toEqual({
    recorded,
    ended: ended === null ? null : expect.objectContaining({ ...ended, runsAgentAgain: true }),
  });
});
