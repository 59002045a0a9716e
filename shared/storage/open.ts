import { access } from "node:fs/promises";
import type { Clock } from "../clock.ts";
import type { FencedOffError } from "./check_epoch.ts";
import { ANSWER_LIMIT_MS, Connection, fileOfUrl, isFileUrl } from "./connection.ts";
import { countOnce } from "./count_once.ts";
import { migrate, readKnownVersion } from "./migrate.ts";
import { Storage } from "./storage.ts";
import type { TakenLease } from "./take_lease.ts";

/** How long a write waits for a lock that another program holds, in ms, before it is answered as busy. */
const WRITE_BUSY_LIMIT_MS = 30_000;
const READ_BUSY_LIMIT_MS = 5_000;

export interface DatabaseOptions {
  url: string;
  authToken: string | null;
  synchronous: "FULL" | "NORMAL";
  clock: Clock;
  /** Default 30 s. */
  busyLimitMs?: number;
  /** How long a database server may take to answer a request of a write, in ms; default 30 s. */
  answerLimitMs?: number;
  /** Once it is aborted a write waits for no lock any more. */
  hurry?: AbortSignal;
  /** Called once, when a write or a look at the fence finds that another scheduler has taken over. It must not throw. */
  onFencedOff: (error: FencedOffError) => void;
}

/**
 * Opens the database for writing: takes the next epoch and migrates it under it. A database that is new is made first, since
 * there is no epoch to take without it.
 * @param take makes this process the scheduler of the database.
 * @throws {SchemaTooNewError} before anything is written; the driver's errors where the file is no database or cannot be
 * written; what `take` throws.
 */
export const openStorage = async (
  options: DatabaseOptions,
  take: (writer: Connection) => Promise<TakenLease>,
): Promise<{ storage: Storage; instanceId: string }> => {
  const { url, authToken, synchronous, clock } = options;
  const common = { url, authToken, synchronous };
  const writer = new Connection({
    ...common,
    readOnly: false,
    busyLimitMs: options.busyLimitMs ?? WRITE_BUSY_LIMIT_MS,
    hurry: options.hurry,
  });
  const reader = new Connection({ ...common, readOnly: true, busyLimitMs: READ_BUSY_LIMIT_MS });
  try {
    if ((await readKnownVersion(writer)) === 0) await migrate(writer, null);
    const { instanceId, epoch } = await take(writer);
    await migrate(writer, epoch);
    // Only now: a migration takes the time that it takes, and nothing waits behind it yet.
    writer.answerWithin(options.answerLimitMs ?? ANSWER_LIMIT_MS);
    const storage = new Storage(writer, reader, clock, { epoch, onFencedOff: options.onFencedOff });
    await countOnce(storage);
    return { storage, instanceId };
  } catch (error) {
    await reader.close();
    await writer.close();
    throw error;
  }
};

/** The database is not there (yet): the scheduler has not made it, or its volume is not mounted. */
export class DatabaseMissingError extends Error {
  readonly code = "database_missing";

  constructor(path: string) {
    super(`there is no database at ${path} yet: it is made by the scheduler at its first start`);
    this.name = "DatabaseMissingError";
  }
}

/**
 * Opens the database for reading only, as the stager does. Works on a read-only mount.
 * @throws {DatabaseMissingError} where the file does not exist: opening it would make an empty one.
 */
export const openReadOnly = async (url: string, authToken: string | null): Promise<Connection> => {
  if (isFileUrl(url)) {
    const path = fileOfUrl(url);
    await access(path).catch((error: NodeJS.ErrnoException) => {
      throw error.code === "ENOENT" ? new DatabaseMissingError(path) : error;
    });
  }
  return new Connection({ url, authToken, synchronous: "FULL", readOnly: true, busyLimitMs: READ_BUSY_LIMIT_MS });
};
