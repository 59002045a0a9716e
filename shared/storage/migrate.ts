import { checkEpoch } from "./check_epoch.ts";
import type { Connection } from "./connection.ts";
import { initial } from "./migrations/0001_initial.ts";

/** In order; the schema version is how many of them a database has seen. Never change one that was released: add another. */
const MIGRATIONS: readonly (readonly string[])[] = [initial];

/** The schema that this program reads and writes. */
export const SCHEMA_VERSION = MIGRATIONS.length;

/** The database was made by a newer program, which this one must not touch. */
export class SchemaTooNewError extends Error {
  readonly code = "schema_too_new";

  constructor(found: number) {
    super(
      `the database has schema version ${found}, this program knows versions up to ${SCHEMA_VERSION}; ` +
        "run the program that made it, or a newer one (nothing was changed)",
    );
    this.name = "SchemaTooNewError";
  }
}

/** @returns the version that the database has; 0 for a new one. */
export const readSchemaVersion = async (connection: Pick<Connection, "query">): Promise<number> => {
  const [row] = await connection.query<{ userVersion: number }>("PRAGMA user_version");
  return row?.userVersion ?? 0;
};

/**
 * Brings the database to `SCHEMA_VERSION`, forward only, all in one transaction. Only the holder of the scheduler lock may
 * call it.
 * @param epoch what the caller writes under; null for a database that is just being made, which has no epoch yet.
 * @throws {SchemaTooNewError} before anything is written; {FencedOffError} where another scheduler has taken over.
 */
export const migrate = async (connection: Connection, epoch: number | null): Promise<void> => {
  // Asked first without a transaction: a database that is up to date, or too new, is not locked for the question.
  if ((await readKnownVersion(connection)) === SCHEMA_VERSION) return;
  await connection.transaction(async (tx) => {
    const found = await readKnownVersion(tx);
    if (epoch !== null) await checkEpoch(tx, epoch);
    for (const statements of MIGRATIONS.slice(found)) {
      for (const statement of statements) await tx.run(statement);
    }
    await tx.run(`PRAGMA user_version = ${SCHEMA_VERSION}`);
  });
};

/**
 * @returns the version that the database has; 0 for a new one.
 * @throws {SchemaTooNewError} where this program does not know it.
 */
export const readKnownVersion = async (source: Pick<Connection, "query">): Promise<number> => {
  const found = await readSchemaVersion(source);
  if (found > SCHEMA_VERSION) throw new SchemaTooNewError(found);
  return found;
};
