import { Connection, SqlTransaction, type SqlValue } from "@orchestrator/shared/storage/connection.ts";
import { onTestFinished, vi } from "vitest";

export interface Statement {
  sql: string;
  args: SqlValue[];
}

/** Writes down, for the rest of the test, every statement that goes to a database. */
export const recordSql = (): Statement[] => {
  const statements: Statement[] = [];
  const note = (sql: string, args: SqlValue[] = []): void => void statements.push({ sql, args });
  const { query, snapshot } = Connection.prototype;
  const transaction = {
    query: SqlTransaction.prototype.query,
    run: SqlTransaction.prototype.run,
    insert: SqlTransaction.prototype.insert,
  };
  const spies = [
    vi.spyOn(Connection.prototype, "query").mockImplementation(function (this: Connection, sql, args) {
      note(sql, args);
      return query.call(this, sql, args) as Promise<never[]>;
    }),
    vi.spyOn(Connection.prototype, "snapshot").mockImplementation(function (this: Connection, many) {
      for (const { sql, args } of many) note(sql, args);
      return snapshot.call(this, many);
    }),
    vi.spyOn(SqlTransaction.prototype, "query").mockImplementation(function (this: SqlTransaction, sql, args) {
      note(sql, args);
      return transaction.query.call(this, sql, args) as Promise<never[]>;
    }),
    vi.spyOn(SqlTransaction.prototype, "run").mockImplementation(function (this: SqlTransaction, sql, args) {
      note(sql, args);
      return transaction.run.call(this, sql, args);
    }),
    vi.spyOn(SqlTransaction.prototype, "insert").mockImplementation(function (this: SqlTransaction, sql, args) {
      note(sql, args);
      return transaction.insert.call(this, sql, args);
    }),
  ];
  onTestFinished(() => {
    for (const spy of spies) spy.mockRestore();
  });
  return statements;
};
