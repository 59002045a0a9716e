import { createClient } from "@libsql/client";
import type { Connection } from "./connection.ts";

/**
 * Writes a database's state of one moment into a new file, while others go on writing to it.
 * @param url `file:<path>`
 * @throws the driver's errors where it cannot be read, or the file is there already.
 */
export const copyDatabase = async (url: string, file: string): Promise<void> => {
  const client = createClient({ url, concurrency: 1, timeout: 5000 });
  try {
    await client.execute({ sql: "VACUUM INTO ?", args: [file] });
  } finally {
    client.close();
  }
};

/** @returns what is wrong with the database's pages and indexes; empty where nothing is. */
export const findDamage = async (connection: Pick<Connection, "query">): Promise<string[]> => {
  const found = await connection.query<{ quickCheck: string }>("PRAGMA quick_check(10)");
  return found.map(({ quickCheck }) => quickCheck).filter((text) => text !== "ok");
};
