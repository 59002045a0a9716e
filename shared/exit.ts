/** How the services end, for whoever started them. */
export const EXIT = {
  ok: 0,
  /** Something that this program did not foresee. */
  failure: 1,
  /** A folder, a port or the database cannot be used (EX_CANTCREAT). */
  unusable: 73,
  /** Another scheduler works on this database (EX_TEMPFAIL). */
  notTheScheduler: 75,
  /** The environment or the configuration file is wrong (EX_CONFIG). */
  config: 78,
} as const;

const UNUSABLE = new Set([
  "address_in_use",
  "address_not_available",
  "permission_denied",
  "listen_failed",
  "schema_too_new",
  "storage_busy",
  "database_missing",
  "SQLITE_NOTADB",
  "SQLITE_CORRUPT",
  "SQLITE_READONLY",
  "SQLITE_CANTOPEN",
  "SQLITE_FULL",
  "EACCES",
  "EPERM",
  "EROFS",
  "ENOSPC",
  "ENOTDIR",
  "EEXIST",
]);

const codeOf = (error: unknown): string => String((error as { code?: unknown } | null)?.code ?? "");

/** The exit code for an error that ended the start. */
export const exitCodeOf = (error: unknown): number => {
  const code = codeOf(error);
  if (code === "scheduler_running" || code === "fenced_off") return EXIT.notTheScheduler;
  return UNUSABLE.has(code) ? EXIT.unusable : EXIT.failure;
};

/** One line about an error that ended the start: what was found and, where it is known, what to do. */
export const explain = (error: unknown): string => {
  const message = error instanceof Error ? error.message : String(error);
  switch (codeOf(error)) {
    case "SQLITE_NOTADB":
      return `ORCH_DB_URL names a file that is no database (${message}): move it away, or name another`;
    case "SQLITE_READONLY":
    case "EROFS":
    case "EACCES":
    case "EPERM":
      return `a folder or file cannot be written (${message}): give it to the user that runs this service`;
    case "ENOSPC":
    case "SQLITE_FULL":
      return `the disk is full (${message}): make room, then start again`;
    default:
      return message;
  }
};
