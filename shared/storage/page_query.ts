import type { SqlValue } from "./connection.ts";

/**
 * The query of one page of a table, newest first: rows that are like `filter` where it says something. The names are the
 * program's own, the values are bound.
 */
export const pageQuery = (
  columns: string,
  table: string,
  filter: Readonly<Record<string, SqlValue | undefined>>,
  { beforeId, limit }: { beforeId: number | undefined; limit: number },
): { sql: string; args: SqlValue[] } => {
  const conditions: Record<string, SqlValue | undefined> = { "id < ?": beforeId };
  for (const [column, value] of Object.entries(filter)) conditions[`${column} = ?`] = value;
  const given = Object.entries(conditions).filter((entry): entry is [string, SqlValue] => entry[1] !== undefined);
  const where = given.length > 0 ? ` WHERE ${given.map(([condition]) => condition).join(" AND ")}` : "";
  return {
    sql: `SELECT ${columns} FROM ${table}${where} ORDER BY id DESC LIMIT ?`,
    args: [...given.map(([, value]) => value), limit],
  };
};
