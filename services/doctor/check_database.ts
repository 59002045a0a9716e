import { stat } from "node:fs/promises";
import { fileOfUrl, isFileUrl } from "@orchestrator/shared/storage/connection.ts";
import { readSchemaVersion, SCHEMA_VERSION } from "@orchestrator/shared/storage/migrate.ts";
import { DatabaseMissingError, openReadOnly } from "@orchestrator/shared/storage/open.ts";
import { unusableDatabase } from "@orchestrator/shared/storage/unusable_database.ts";
import { UnusableError } from "@orchestrator/shared/unusable.ts";
import type { Check } from "./checks.ts";
import { type Finding, fail, ok } from "./finding.ts";

/** Whether the database can be read, and which schema it has. It is neither made nor migrated. */
export const checkDatabase: Check = async ({ config }) => {
  const { dbUrl, dbAuthToken } = config;
  try {
    const connection = await openReadOnly(dbUrl, dbAuthToken);
    try {
      // The version stands in the first bytes; a read of the schema finds out whether the rest is a database as well.
      const version = await readSchemaVersion(connection);
      await connection.query("SELECT count(*) FROM sqlite_schema");
      return [judgeVersion(version, await sizeOf(dbUrl))];
    } finally {
      await connection.close();
    }
  } catch (error) {
    if (error instanceof DatabaseMissingError) {
      return [ok("database", `${fileOfUrl(dbUrl)} is not there yet: it is made at the scheduler's first start`)];
    }
    const known = unusableDatabase(error, dbUrl);
    if (known instanceof UnusableError) return [fail("database", known.found, known.todo)];
    throw error;
  }
};

const sizeOf = async (dbUrl: string): Promise<string> => {
  if (!isFileUrl(dbUrl)) return dbUrl;
  const path = fileOfUrl(dbUrl);
  return `${path}, ${((await stat(path)).size / 1024 ** 2).toFixed(1)} MiB`;
};

/** @param where the database, for people. */
export const judgeVersion = (version: number, where: string): Finding => {
  const found = `schema version ${version} (${where})`;
  if (version > SCHEMA_VERSION) {
    return fail(
      "database",
      `${found}, and this program knows versions up to ${SCHEMA_VERSION}`,
      "run the program that made it, or a newer one",
    );
  }
  if (version < SCHEMA_VERSION) {
    return ok("database", `${found}: the scheduler brings it to ${SCHEMA_VERSION} at its next start`);
  }
  return ok("database", found);
};
