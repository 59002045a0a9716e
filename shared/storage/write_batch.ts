import type { SqlTransaction } from "./connection.ts";
import { isOfFile } from "./driver_errors.ts";
import type { Tx } from "./tx.ts";

/** A write that waits for its turn. */
export interface WaitingWrite {
  work: (tx: Tx) => Promise<unknown>;
  resolve: (value: unknown) => void;
  reject: (error: unknown) => void;
}

/** A write that ran, to be answered after the commit; `tx` is null where it was undone. */
export interface Written {
  tx: Tx | null;
  settle: () => void;
}

type Run = (write: WaitingWrite) => Promise<Written>;

/** Runs the writes of a batch in one transaction. @throws what the first that fails has thrown: all are undone then. */
export const runTogether = async (batch: readonly WaitingWrite[], run: Run): Promise<Written[]> => {
  const written: Written[] = [];
  for (const write of batch) written.push(await run(write));
  return written;
};

/** Runs the writes of a batch in one transaction in which each is kept or undone by itself. */
export const runApart = async (sql: SqlTransaction, batch: readonly WaitingWrite[], run: Run): Promise<Written[]> => {
  const written: Written[] = [];
  for (const write of batch) {
    await sql.run("SAVEPOINT one_write");
    try {
      written.push(await run(write));
    } catch (error) {
      // A locked or failing file fails the whole transaction, of which no savepoint may be left.
      if (isOfFile(error)) throw error;
      await sql.run("ROLLBACK TO one_write");
      written.push({ tx: null, settle: () => write.reject(error) });
    }
    await sql.run("RELEASE one_write");
  }
  return written;
};
