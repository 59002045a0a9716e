/**
 * Something around the work failed, not the work: a remote, the disk, a missing program. It is thrown from wherever it
 * happens and caught once, where a run's outcome is decided (`outcome` = `tool_error`, its class = `code`).
 */
export class ToolError extends Error {
  readonly code: string;

  /**
   * @param code the class of the error as the contract names it: `git_fetch`, `git_push`, `no_space`, `command_not_found` …
   * @param message what was found, what was expected, and what to do.
   */
  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "ToolError";
    this.code = code;
  }
}
