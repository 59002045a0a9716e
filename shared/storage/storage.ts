import { setImmediate } from "node:timers/promises";
import { type Clock, isoTime } from "../clock.ts";
import { checkEpoch, FencedOffError } from "./check_epoch.ts";
import type { Committed } from "./committed.ts";
import { type Connection, type Row, type SqlTransaction, type SqlValue, StorageBusyError } from "./connection.ts";
import { countOnce } from "./count_once.ts";
import { isOfFile } from "./driver_errors.ts";
import { Tally } from "./tally.ts";
import { Tx } from "./tx.ts";
import { wasCommitted } from "./was_committed.ts";
import { runApart, runTogether, type WaitingWrite, type Written } from "./write_batch.ts";

/** Others want to write as well: the transaction of a batch should not hold the database's lock for long. */
const MAX_WRITES_PER_COMMIT = 128;

/**
 * The database as the scheduler sees it. `write` is the only place where a write transaction begins, and each one begins
 * by reading the fence.
 */
export class Storage {
  readonly #writer: Connection;
  readonly #reader: Connection;
  readonly #clock: Clock;
  readonly #epoch: number;
  readonly #onFencedOff: (error: FencedOffError) => void;
  #isFencedOff = false;
  readonly #listeners = new Set<(committed: Committed) => void>();
  readonly tally = new Tally();
  #waiting: WaitingWrite[] = [];
  #writing = false;
  /** Resolves when nothing that was asked for waits to be written. */
  #written: Promise<void> = Promise.resolve();
  /** What is to be told of the last commit, if it was made: its answer was lost, or the disk failed beneath it. */
  #inDoubt: readonly Tx[] = [];

  /**
   * @param tenure `epoch`: what `takeLease` answered; `onFencedOff`: called once, when a newer one is found for the first time,
   * whoever's write or push finds it. It must not throw.
   */
  constructor(
    writer: Connection,
    reader: Connection,
    clock: Clock,
    tenure: { epoch: number; onFencedOff: (error: FencedOffError) => void },
  ) {
    this.#writer = writer;
    this.#reader = reader;
    this.#clock = clock;
    this.#epoch = tenure.epoch;
    this.#onFencedOff = tenure.onFencedOff;
  }

  get epoch(): number {
    return this.#epoch;
  }

  /**
   * Runs `work` in a write transaction, begun only if this scheduler's epoch still stands, and resolves after its commit.
   * `work` may run more than once (the database was locked), so it must do nothing but write to `tx`. Where it throws, what it
   * wrote is undone.
   *
   * Writes that wait at the same time share one transaction, in which each is kept or undone by itself: with
   * `synchronous=FULL` the commit is what costs, and so a hundred requests at once cost a few commits instead of a hundred.
   * @throws {FencedOffError} where another scheduler has taken over; {@link StorageBusyError} where the lock was not to be had.
   */
  write<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    const written = new Promise<T>((resolve, reject) => {
      this.#waiting.push({ work, resolve: resolve as (value: unknown) => void, reject });
    });
    if (!this.#writing) this.#written = this.#writeAll();
    return written;
  }

  /** Never rejects: each write is told how it went. */
  async #writeAll(): Promise<void> {
    this.#writing = true;
    while (this.#waiting.length > 0) {
      // The driver does not give way while it writes, so all that has arrived meanwhile is let in before the next commit.
      await setImmediate();
      const batch = this.#waiting.splice(0, this.#writer.isRemote ? 1 : MAX_WRITES_PER_COMMIT);
      try {
        await this.#endDoubt();
        const written = await this.#writeBatch(batch);
        for (const { tx } of written) if (tx) this.#announce(tx);
        for (const { settle } of written) settle();
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    // In the same step as the look at the queue: a write that comes a moment later begins the next round.
    this.#writing = false;
  }

  /**
   * Finds out what came of a commit that is in doubt, and tells of it, before the next transaction moves on from there. Where
   * nothing else is written it waits until then: on a server for a few seconds, since the lease is renewed.
   */
  async #endDoubt(): Promise<void> {
    const txs = this.#inDoubt;
    if (txs.length === 0) return;
    const events = txs.flatMap((tx) => tx.events);
    const committed = await this.#transaction((sql) => wasCommitted(sql, events));
    if (committed === null) await countOnce(this);
    this.#inDoubt = [];
    if (committed === null) this.#tell({ events: [], begun: [], ended: [], queueMoved: true });
    else if (committed) for (const tx of txs) this.#announce(tx);
  }

  /**
   * Runs a batch in one transaction. Nearly always all goes well, so at first nothing is spent on taking single writes back;
   * where one fails, all are undone and run again, each in a savepoint.
   */
  async #writeBatch(batch: readonly WaitingWrite[]): Promise<Written[]> {
    /** What a write itself has thrown. */
    let thrown: unknown;
    const runIn = (sql: SqlTransaction) => (write: WaitingWrite) =>
      this.#writeOne(sql, write).catch((error: unknown) => {
        thrown = error;
        throw error;
      });
    try {
      return await this.#commit((sql) => runTogether(batch, runIn(sql)));
    } catch (error) {
      if (error !== thrown || batch.length === 1 || isOfFile(error)) throw error;
      return this.#commit((sql) => runApart(sql, batch, runIn(sql)));
    }
  }

  /** Nothing is answered yet: it may have to run again. */
  async #writeOne(sql: SqlTransaction, { work, resolve }: WaitingWrite): Promise<Written> {
    const tx = new Tx(sql, isoTime(this.#clock.now()));
    const result = await work(tx);
    return { tx, settle: () => resolve(result) };
  }

  /** Runs `work` in a transaction and remembers what it did where nobody knows whether that was committed. */
  async #commit(work: (sql: SqlTransaction) => Promise<Written[]>): Promise<Written[]> {
    let done: Written[] = [];
    try {
      return await this.#transaction(async (sql) => {
        done = [];
        done = await work(sql);
        return done;
      });
    } catch (error) {
      // Before all was done nothing was committed; and of a lock it is certain that it kept the commit from being made.
      if (!(error instanceof StorageBusyError)) this.#inDoubt = newsOf(done);
      throw error;
    }
  }

  /** A write transaction under the fence. */
  #transaction<T>(work: (sql: SqlTransaction) => Promise<T>): Promise<T> {
    return this.#writer.transaction(async (sql) => {
      await this.#checkEpoch(sql);
      return work(sql);
    });
  }

  /** Here alone a process finds out that it is the scheduler no longer: nobody who asks has to pass that on. */
  async #checkEpoch(source: Pick<Connection, "query">): Promise<void> {
    try {
      await checkEpoch(source, this.#epoch);
    } catch (error) {
      if (error instanceof FencedOffError && !this.#isFencedOff) {
        this.#isFencedOff = true;
        this.#onFencedOff(error);
      }
      throw error;
    }
  }

  #announce(tx: Tx): void {
    this.tally.apply(tx.moves);
    const { events, begun, ended, queueMoved } = tx;
    this.#tell({ events, begun, ended, queueMoved });
  }

  #tell(committed: Committed): void {
    for (const listener of this.#listeners) listener(committed);
  }

  /** @throws {FencedOffError} where another scheduler has taken over. Asked just before a push or a ref update. */
  checkFence(): Promise<void> {
    return this.#checkEpoch(this);
  }

  query<T extends object = Row>(sql: string, args: SqlValue[] = []): Promise<T[]> {
    return this.#reader.query<T>(sql, args);
  }

  /** Several reads that see the same state. */
  snapshot(statements: { sql: string; args: SqlValue[] }[]): Promise<Row[][]> {
    return this.#reader.snapshot(statements);
  }

  /** Calls `listener` after each commit; it must not throw. @returns a function that ends it. */
  onCommitted(listener: (committed: Committed) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Writes what was asked for before, then closes. */
  async close(): Promise<void> {
    await this.#written;
    await this.#reader.close();
    await this.#writer.close();
  }
}

const newsOf = (written: readonly Written[]): Tx[] => written.flatMap(({ tx }) => (tx?.hasNews ? [tx] : []));
