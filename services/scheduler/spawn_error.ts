import { ToolError } from "@orchestrator/shared/tool_error.ts";

/**
 * What a failed start of `file` means. The command has been looked up before, so that "not found" here is about what the
 * kernel needs beside it. Node throws some of these and emits others; Deno emits most.
 */
export const spawnError = (file: string, error: unknown): ToolError => {
  if (error instanceof ToolError) return error;
  const { code, message } = error as NodeJS.ErrnoException;
  const because = { cause: error };
  switch (code) {
    case "ENOENT":
      return new ToolError(
        "command_not_executable",
        `${file} could not be started: the interpreter that its first line names is missing, or it was removed just now`,
        because,
      );
    case "EACCES":
    case "EPERM":
    case "ENOEXEC":
      return new ToolError(
        "command_not_executable",
        `${file} could not be started: it is not a program for this machine and user (${code})`,
        because,
      );
    case "E2BIG":
      return new ToolError(
        "spawn_failed",
        `${file} could not be started: its arguments and environment together are too large for the system`,
        because,
      );
    case "ERR_INVALID_ARG_VALUE":
      // The runtime's own message would quote the value, which may be a secret.
      return new ToolError(
        "spawn_failed",
        `${file} could not be started: an argument or a value of its environment holds a NUL character`,
      );
    default:
      return new ToolError("spawn_failed", `${file} could not be started: ${message}`, because);
  }
};
