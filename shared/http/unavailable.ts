import { isPassing } from "../storage/is_passing.ts";
import type { ProblemCode } from "./problem.ts";

export interface Unavailable {
  code: ProblemCode;
  /** The cause, whether anything was changed, and what to do; nothing internal. */
  detail: string;
}

/**
 * What to say of a request that failed by something which is nobody's fault here and may be gone at the next try: the database
 * is locked, out of reach, on a disk that fails, or another scheduler's, which then answers in this one's place. Null for a
 * request that failed by anything else.
 */
export const unavailable = (error: unknown): Unavailable | null => {
  const code = String((error as { code?: unknown } | null)?.code);
  const known = BY_CODE.find(([beginning]) => code.startsWith(beginning));
  if (known === undefined && !isPassing(error)) return null;
  return { code: code === FENCED_OFF ? FENCED_OFF : "unavailable", detail: known?.[1] ?? NO_ANSWER };
};

const FENCED_OFF = "fenced_off";

const LOCKED = "The database is locked by another program; nothing was changed. Try again in a moment.";
const DAMAGED = "The file of the database is damaged. Stop the service and restore a backup.";
const DISK_FAILS =
  "The file of the database cannot be read or written: its disk fails or is away. Whether anything was changed is not known. " +
  "See to the disk, look, then try again.";
const NO_ANSWER =
  "The database did not answer as it should; whether anything was changed is not known. Look, then try again.";

/** By how codes begin: those of errors of our own, then SQLite's. */
const BY_CODE: readonly [beginning: string, detail: string][] = [
  ["storage_busy", LOCKED],
  [
    "storage_unreachable",
    "The database cannot be reached; whether anything was changed is not known. Look, then try again.",
  ],
  [FENCED_OFF, "Another scheduler has taken over the database, and this one ends; nothing was changed. Ask that one."],
  ["SQLITE_BUSY", LOCKED],
  ["SQLITE_LOCKED", LOCKED],
  ["SQLITE_FULL", "The disk that the database is on is full; nothing was changed. Make room there, then try again."],
  [
    "SQLITE_READONLY",
    "The database is read-only for this service; nothing was changed. Make its file and its folder writable, then try again.",
  ],
  ["SQLITE_IOERR", DISK_FAILS],
  ["SQLITE_CANTOPEN", DISK_FAILS],
  ["SQLITE_CORRUPT", DAMAGED],
  ["SQLITE_NOTADB", DAMAGED],
];
