import { LibsqlError } from "@libsql/client";

/** Faults of the statement or of the data: they are the same at the next try, on any connection. */
const LASTING = [
  "SQLITE_CONSTRAINT",
  "SQLITE_ERROR",
  "SQLITE_MISMATCH",
  "SQLITE_RANGE",
  "SQLITE_MISUSE",
  "SQLITE_TOOBIG",
];

/** Whether somebody else holds the database's lock; the connection that heard it must not be used again. */
export const isBusy = (error: unknown): boolean =>
  error instanceof LibsqlError && (error.code.startsWith("SQLITE_BUSY") || error.code.startsWith("SQLITE_LOCKED"));

/** Whether the file, its disk or its lock has failed, not what was asked of it. */
export const isOfFile = (error: unknown): boolean =>
  (error instanceof LibsqlError && !LASTING.some((code) => error.code.startsWith(code))) ||
  // A file that cannot be opened at all comes without a code.
  (error instanceof Error && error.message.startsWith("ConnectionFailed("));
