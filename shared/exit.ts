import { isDiskFull } from "./disk_space.ts";
import { ToolError } from "./tool_error.ts";

/** How the services end, for whoever started them. Where several would be right, the highest is: it says most. */
export const EXIT = {
  ok: 0,
  /** Something that this program did not foresee. */
  failure: 1,
  /** It was called with arguments that it does not know (EX_USAGE). */
  usage: 64,
  /** A folder, a port, a program or the database cannot be used (EX_CANTCREAT). */
  unusable: 73,
  /** Another scheduler works on this database (EX_TEMPFAIL). */
  notTheScheduler: 75,
  /** The environment or the configuration file is wrong (EX_CONFIG). */
  config: 78,
} as const;

const UNUSABLE = new Set([
  "unusable",
  "address_in_use",
  "address_not_available",
  "permission_denied",
  "listen_failed",
  "schema_too_new",
  "storage_busy",
  "storage_unreachable",
  "database_missing",
]);

/** The system's own words for what it did not let this program do. */
const NOT_WRITABLE = new Set(["EACCES", "EPERM", "EROFS"]);
const isNoSpace = (code: string): boolean => isDiskFull(code) || code === "SQLITE_FULL";
const IN_THE_WAY = new Set(["EEXIST", "EISDIR", "ENOENT", "ENOTDIR", "EMFILE", "ENFILE", "EIO"]);

const codeOf = (error: unknown): string => String((error as { code?: unknown } | null)?.code ?? "");

const isUnusable = (error: unknown, code: string): boolean =>
  error instanceof ToolError ||
  isNoSpace(code) ||
  [UNUSABLE, NOT_WRITABLE, IN_THE_WAY].some((codes) => codes.has(code)) ||
  code.startsWith("SQLITE_");

/** The exit code for an error that ended the start, or was met while stopping. */
export const exitCodeOf = (error: unknown): number => {
  if (error instanceof AggregateError) return Math.max(EXIT.failure, ...error.errors.map(exitCodeOf));
  const code = codeOf(error);
  if (code === "scheduler_running" || code === "fenced_off") return EXIT.notTheScheduler;
  return isUnusable(error, code) ? EXIT.unusable : EXIT.failure;
};

/** One line about an error that ended the start: what was found and, where it is known, what to do. */
export const explain = (error: unknown): string => {
  const message = (error instanceof Error ? error.message : String(error)).replaceAll(/\s*\n\s*/g, " ");
  const code = codeOf(error);
  if (NOT_WRITABLE.has(code)) {
    return `a folder or file cannot be written (${message}): give it to the user that runs this service`;
  }
  if (isNoSpace(code)) return `the disk is full (${message}): make room, then start again`;
  if (exitCodeOf(error) !== EXIT.failure) return message;
  return `the start failed unexpectedly (${message}): with ORCH_LOG_LEVEL=debug the log says where`;
};
