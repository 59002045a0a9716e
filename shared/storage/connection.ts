import { setTimeout as sleep } from "node:timers/promises";
import { type Client, createClient, type InArgs, type ResultSet, type Transaction } from "@libsql/client";
import { camel } from "../case.ts";
import { Mutex } from "../mutex.ts";
import { isBusy, isOfFile } from "./driver_errors.ts";

/** What may be bound. `undefined` and objects are kept out: the driver aborts the process on them. */
export type SqlValue = string | number | bigint | boolean | null;
export type Row = Record<string, unknown>;

/**
 * How long the driver itself waits for a lock before it answers SQLITE_BUSY, in ms. The driver is synchronous: while it
 * waits, the event loop stands still, so the longer wait is done out here, in steps.
 */
const DRIVER_WAIT_MS = 200;

/**
 * How long the log of changes grows before a commit carries it over into the file, in pages of 4 KiB. With SQLite's own 1000
 * every fiftieth commit did; pages that are written again and again meanwhile are carried over once.
 */
const CHECKPOINT_PAGES = 4000;

/** Pauses between tries, in ms. Each try leaves a closed connection to the garbage collector, so they grow. */
const BUSY_PAUSES_MS = [50, 100, 250, 500, 1000, 2000];

/** A request to a database server that takes longer than this, in ms, gets no answer any more. */
export const ANSWER_LIMIT_MS = 30_000;

export interface ConnectionOptions {
  url: string;
  authToken: string | null;
  synchronous: "FULL" | "NORMAL";
  readOnly: boolean;
  /** How long an operation waits for a lock held by someone else before it is given up, in ms. */
  busyLimitMs: number;
  /** Once it is aborted no lock is waited for any more: what meets one is given up at once. */
  hurry?: AbortSignal | undefined;
}

export const isFileUrl = (url: string): boolean => url.startsWith("file:");

/** The path of a `file:` URL of a database. */
export const fileOfUrl = (url: string): string => url.replace(/^file:(\/\/(?=\/))?/, "").replace(/\?.*$/, "");

/**
 * One connection to the database and the cure for the driver's lost writes: after a single SQLITE_BUSY a connection answers
 * later writes with success and never commits them, so any busy answer throws the connection away, opens another, sets its
 * PRAGMAs, and begins the whole operation again. One operation at a time, since the PRAGMAs belong to the connection and a
 * second one opened beside an open transaction would have none of them.
 */
export class Connection {
  readonly #options: ConnectionOptions;
  readonly #client: Client;
  readonly #mutex = new Mutex();
  #answerLimitMs = ANSWER_LIMIT_MS;
  readonly #fetchInTime: typeof fetch = (input, init) =>
    fetch(input, { ...init, signal: AbortSignal.timeout(this.#answerLimitMs) });
  #prepared = false;
  /** Set where the connection must not be used again. */
  #broken = false;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#client = createClient({
      url: options.url,
      ...(options.authToken === null ? {} : { authToken: options.authToken }),
      ...(isFileUrl(options.url) ? { concurrency: 1, timeout: DRIVER_WAIT_MS } : { fetch: this.#fetchInTime }),
    });
  }

  /** Gives requests to a database server less time, in ms, from now on. */
  answerWithin(ms: number): void {
    this.#answerLimitMs = ms;
  }

  /** Whether the database is on a server, where a transaction must be short and an answer can get lost. */
  get isRemote(): boolean {
    return !isFileUrl(this.#options.url);
  }

  /** Runs one statement outside a transaction and returns its rows, keys in camelCase. */
  async query<T extends object = Row>(sql: string, args: SqlValue[] = []): Promise<T[]> {
    return this.#operate(async () => rows<T>(await this.#client.execute({ sql, args: bind(args) })));
  }

  /** Runs several statements in one read snapshot. */
  async snapshot(statements: { sql: string; args: SqlValue[] }[]): Promise<Row[][]> {
    return this.#operate(async () => {
      const results = await this.#client.batch(
        statements.map(({ sql, args }) => ({ sql, args: bind(args) })),
        "read",
      );
      return results.map((result) => rows(result));
    });
  }

  /**
   * Runs `work` in one IMMEDIATE transaction. `work` may run more than once and must have no effect but on the database.
   * @returns what `work` returned, after its commit.
   */
  async transaction<T>(work: (tx: SqlTransaction) => Promise<T>): Promise<T> {
    return this.#operate(async () => {
      const transaction = await this.#client.transaction("write");
      try {
        const result = await work(new SqlTransaction(transaction));
        await transaction.commit();
        return result;
      } finally {
        transaction.close();
      }
    });
  }

  async close(): Promise<void> {
    await this.#mutex.run(async () => this.#client.close());
  }

  async #operate<T>(operation: () => Promise<T>): Promise<T> {
    return this.#mutex.run(async () => {
      const { busyLimitMs, hurry } = this.#options;
      const beganAt = performance.now();
      for (let tries = 0; ; tries++) {
        try {
          await this.#prepare();
          return await operation();
        } catch (error) {
          if (this.isRemote && isNetworkFault(error)) throw new StorageUnreachableError(error);
          // Whatever befell the file, a connection from before goes on in it: opened read-only, it never writes again.
          this.#broken ||= !this.isRemote && isOfFile(error);
          if (!isBusy(error)) throw error;
          await this.#replace();
          const pauseMs = BUSY_PAUSES_MS[Math.min(tries, BUSY_PAUSES_MS.length - 1)] ?? 0;
          const waitedMs = performance.now() - beganAt;
          const limitMs = hurry?.aborted ? Math.floor(waitedMs) : busyLimitMs;
          if (waitedMs + pauseMs > limitMs) throw new StorageBusyError(limitMs, error);
          await sleep(pauseMs, undefined, hurry ? { signal: hurry } : undefined).catch(() => undefined);
        }
      }
    });
  }

  async #replace(): Promise<void> {
    this.#broken = true;
    this.#prepared = false;
    await this.#client.reconnect();
    this.#broken = false;
  }

  /** A remote server has its own settings and refuses most PRAGMAs. */
  async #prepare(): Promise<void> {
    if (this.#broken) await this.#replace();
    if (this.#prepared || !isFileUrl(this.#options.url)) return;
    if (this.#options.readOnly) {
      await this.#client.execute("PRAGMA query_only = ON");
    } else {
      await this.#client.execute("PRAGMA journal_mode = WAL");
      await this.#client.execute(`PRAGMA synchronous = ${this.#options.synchronous}`);
      await this.#client.execute("PRAGMA foreign_keys = ON");
      await this.#client.execute(`PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
    }
    this.#prepared = true;
  }
}

/** The statements of one open transaction. */
export class SqlTransaction {
  readonly #transaction: Transaction;

  constructor(transaction: Transaction) {
    this.#transaction = transaction;
  }

  /** @returns the rows, keys in camelCase. */
  async query<T extends object = Row>(sql: string, args: SqlValue[] = []): Promise<T[]> {
    return rows<T>(await this.#transaction.execute({ sql, args: bind(args) }));
  }

  /**
   * Inserts one row. For an id alone this is several times cheaper than RETURNING, for which the driver describes every column.
   * @returns the row's id, or null where a conflict let nothing be inserted.
   */
  async insert(sql: string, args: SqlValue[] = []): Promise<number | null> {
    const { rowsAffected, lastInsertRowid } = await this.#transaction.execute({ sql, args: bind(args) });
    return rowsAffected === 0 ? null : Number(lastInsertRowid);
  }

  /** @returns how many rows were changed. Not for RETURNING, for which the driver reports 0: count the rows of `query`. */
  async run(sql: string, args: SqlValue[] = []): Promise<number> {
    return (await this.#transaction.execute({ sql, args: bind(args) })).rowsAffected;
  }
}

/** The server that has the database did not answer. Whether what was asked for has been done is not known. */
export class StorageUnreachableError extends Error {
  readonly code = "storage_unreachable";

  constructor(cause: unknown) {
    super(`the database server cannot be reached (${cause instanceof Error ? cause.message : cause})`, { cause });
    this.name = "StorageUnreachableError";
  }
}

/** What `fetch` throws when the network fails: a TypeError of its own on Node, one without a code on Deno, or our time-out. */
const isNetworkFault = (error: unknown): boolean =>
  error instanceof Error &&
  (error.name === "TimeoutError" ||
    (error instanceof TypeError &&
      (error.cause !== undefined || /fetch|network|connect|sending request/i.test(error.message))));

/** Somebody else held the database's lock for longer than this program waits. Nothing was written. */
export class StorageBusyError extends Error {
  readonly code = "storage_busy";

  constructor(waitedMs: number, cause: unknown) {
    super(
      `the database has been locked by another program for more than ${waitedMs} ms; nothing was written. ` +
        "End the program that holds it (a database shell or a backup that is still open?)",
      { cause },
    );
    this.name = "StorageBusyError";
  }
}

/** The driver binds every JS number as REAL; integers must reach it as BigInt. */
const bind = (args: SqlValue[]): InArgs =>
  args.map((value) => (typeof value === "number" && Number.isInteger(value) ? BigInt(value) : value));

/** The names are turned once for all rows: on a page of them that is most of the work. */
const rows = <T extends object>(result: ResultSet): T[] => {
  const names = result.columns.map(camel);
  return result.rows.map((row) => {
    const named: Row = {};
    for (const [index, name] of names.entries()) named[name] = row[index];
    return named as T;
  });
};
