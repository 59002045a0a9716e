import { LibsqlError } from "@libsql/client";
import { StorageBusyError, StorageUnreachableError } from "./connection.ts";

/** Faults of the statement or of the data: they are the same at the next try. */
const LASTING = [
  "SQLITE_CONSTRAINT",
  "SQLITE_ERROR",
  "SQLITE_MISMATCH",
  "SQLITE_RANGE",
  "SQLITE_MISUSE",
  "SQLITE_TOOBIG",
];

/** Whether a failed database operation may succeed when it is tried again: locked, unreachable, disk full, read-only for now. */
export const isPassing = (error: unknown): boolean =>
  error instanceof StorageBusyError ||
  error instanceof StorageUnreachableError ||
  (error instanceof LibsqlError && !LASTING.some((code) => error.code.startsWith(code)));
