import { createHash } from "node:crypto";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";

/**
 * A digest of every row of every table: two that are alike mean that nothing was changed in between. Left out is what the
 * database keeps for itself: which ids it will not give again.
 */
export const databaseHash = async (storage: Pick<Storage, "query">): Promise<string> => {
  const hash = createHash("sha256");
  const tables = await storage.query<{ name: string }>(
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY name",
  );
  for (const { name } of tables) {
    const rows = await storage.query(`SELECT * FROM "${name}" ORDER BY rowid`);
    hash.update(JSON.stringify([name, rows]));
  }
  return hash.digest("hex");
};
