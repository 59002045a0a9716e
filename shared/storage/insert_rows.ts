import type { Tx } from "./tx.ts";

/** A new row by its columns' names. Every row of one call has the same columns. */
export type NewRow = Readonly<Record<string, string | number | null>>;

export interface InsertOptions {
  /** Columns that are wanted of the new rows, beside the id. */
  returning?: string;
  /** True: a row that a unique index refuses is left out, instead of failing all. */
  skipRefused?: boolean;
}

/**
 * Inserts any number of rows into a table with one statement: the driver's price is by the statement, not by the row.
 * @returns the rows that were inserted, in the order in which they were given: ids only grow.
 */
export const insertRows = async <T extends { id: number } = { id: number }>(
  tx: Tx,
  table: string,
  rows: readonly NewRow[],
  { returning, skipRefused = false }: InsertOptions = {},
): Promise<T[]> => {
  const [first] = rows;
  if (first === undefined) return [];
  const columns = Object.keys(first);
  const values = columns.map((column) => `value ->> '${column}'`);
  const inserted = await tx.query<T>(
    `INSERT INTO ${table} (${columns.join(", ")}) SELECT ${values.join(", ")} FROM json_each(?) WHERE true ORDER BY key
     ${skipRefused ? "ON CONFLICT DO NOTHING" : ""} RETURNING id${returning === undefined ? "" : `, ${returning}`}`,
    [JSON.stringify(rows)],
  );
  return inserted.sort((a, b) => a.id - b.id);
};
