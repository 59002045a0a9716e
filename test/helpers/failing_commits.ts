import { Connection, type SqlTransaction, StorageUnreachableError } from "@orchestrator/shared/storage/connection.ts";
import { vi } from "vitest";

/** What a write hears when the server that has the database does not answer. */
export const unreachable = (): Error => new StorageUnreachableError(new TypeError("fetch failed"));

/**
 * Has the next transaction of any connection end in `error`, when all of it is done but the commit.
 * @param made whether it is committed all the same: then only the answer is lost.
 */
export const failNextCommit = (error: Error, { made }: { made: boolean }): void => {
  const { transaction } = Connection.prototype;
  type Work = (tx: SqlTransaction) => Promise<unknown>;
  const spy = vi.spyOn(Connection.prototype, "transaction").mockImplementation(async function (
    this: Connection,
    work: Work,
  ) {
    spy.mockRestore();
    await transaction.call(this, async (sql) => {
      await work(sql);
      // What is thrown within a transaction undoes it.
      if (!made) throw error;
    });
    throw error;
  } as never);
};
