import { exitCodeOf, explain } from "@orchestrator/shared/exit.ts";
import { ListenError } from "@orchestrator/shared/serve.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";
import { UnusableError } from "@orchestrator/shared/unusable.ts";
import { expect, test } from "vitest";

const withCode = (code: string, message = "what the system said") => Object.assign(new Error(message), { code });

test.each([
  [new UnusableError("this folder cannot be used", "move it"), 73, "this folder cannot be used: move it"],
  [new ListenError("address_in_use", "1:2 is in use"), 73, "1:2 is in use"],
  [withCode("scheduler_running", "another one: pid 7"), 75, "another one: pid 7"],
  [withCode("fenced_off", "a newer epoch"), 75, "a newer epoch"],
  [withCode("schema_too_new", "version 9, known 1"), 73, "version 9, known 1"],
  [withCode("storage_busy", "locked by another program"), 73, "locked by another program"],
  [new ToolError("git_fetch", "the remote is gone"), 73, "the remote is gone"],
  ...["EACCES", "EPERM", "EROFS"].map(
    (code) =>
      [
        withCode(code),
        73,
        "a folder or file cannot be written (what the system said): give it to the user that runs this service",
      ] as const,
  ),
  ...["ENOSPC", "EDQUOT", "SQLITE_FULL"].map(
    (code) => [withCode(code), 73, "the disk is full (what the system said): make room, then start again"] as const,
  ),
  [withCode("EMFILE"), 73, "what the system said"],
  [withCode("SQLITE_IOERR_SHORT_READ"), 73, "what the system said"],
] as const)("%s ends a start with %i", (error, code, line) => {
  expect(exitCodeOf(error)).toBe(code);
  expect(explain(error)).toBe(line);
});

test.each([
  [new TypeError("x is not a function\n    at somewhere")],
  [withCode("ERR_INVALID_ARG_TYPE", "x is not a function at somewhere")],
  ["x is not a function at somewhere"],
])("what nobody foresaw is 1, on one line, and says where to look", (error) => {
  expect(exitCodeOf(error)).toBe(1);
  expect(explain(error)).toBe(
    "the start failed unexpectedly (x is not a function at somewhere): with ORCH_LOG_LEVEL=debug the log says where",
  );
});

test.each([[undefined], [null], [0], [{}]])("anything can be thrown: %s", (error) => {
  expect(exitCodeOf(error)).toBe(1);
  expect(explain(error)).toMatch(/^the start failed unexpectedly \(/);
});
