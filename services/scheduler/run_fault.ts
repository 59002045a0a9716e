import { DATABASE } from "@orchestrator/shared/outcome_class.ts";
import { createTextRedactor } from "@orchestrator/shared/redact.ts";
import { isPassing } from "@orchestrator/shared/storage/is_passing.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";
import { fileSystemError } from "./git/file_system_error.ts";
import { printable } from "./git/notes.ts";

/** The class of a fault that nobody foresaw: of this program, not of the work. */
export const INTERNAL = "internal";

const redact = createTextRedactor([]);

/** What befell a run around its agent's own ending, as the class and the reason of a `tool_error`. */
export const faultOf = (error: unknown): { class: string; reason: string } => {
  const fault = error instanceof ToolError ? error : fileSystemError(error, "working on the run");
  if (fault !== null) return { class: fault.code, reason: fault.message };
  if (error instanceof Error && isPassing(error)) return { class: DATABASE, reason: error.message };
  const said = printable(redact(String(error)));
  return { class: INTERNAL, reason: `the scheduler met an error that nobody foresaw: ${said}. Its log has more` };
};
