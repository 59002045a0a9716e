import { randomUUID } from "node:crypto";
import type { Connection, SqlTransaction } from "./connection.ts";
import type { Tx } from "./tx.ts";

/** Who holds the scheduler lock, for people: another scheduler names it when it has to give up. */
export interface Holder {
  host: string;
  pid: number;
  /** ISO 8601. */
  since: string;
}

/** The lease as it stands in the database. */
export interface LeaseRow {
  instanceId: string;
  holder: Holder;
  epoch: number;
  expiresAt: string;
}

/** What this process writes under, once it has the lease. */
export interface TakenLease {
  instanceId: string;
  epoch: number;
}

/** `expires_at` of a lease whose holder has given it back: nobody needs to wait for its end. */
const RELEASED = "1970-01-01T00:00:00.000Z";

export const isReleased = (lease: Pick<LeaseRow, "expiresAt">): boolean => lease.expiresAt === RELEASED;

/** @returns the lease, or null where nobody ever took it. */
export const readLease = async (connection: Pick<Connection, "query">): Promise<LeaseRow | null> => {
  const [row] = await connection.query<Omit<LeaseRow, "holder"> & { holder: string }>(
    "SELECT instance_id, holder, epoch, expires_at FROM scheduler_lease WHERE id = 1",
  );
  return row ? { ...row, holder: JSON.parse(row.holder) as Holder } : null;
};

/**
 * Makes this process the scheduler of the database, whoever was it before: the epoch grows by one, so that every write of an
 * earlier holder is refused from here on. The instance id is made once for a database and kept. The caller holds a lock that
 * no other process can have.
 */
export const takeLease = (writer: Connection, holder: Holder, expiresAt: string): Promise<TakenLease> =>
  writer.transaction((tx) => take(tx, holder, expiresAt));

/**
 * The same by compare-and-set, where the lease itself is the lock.
 * @param seen the lease as it was when the caller decided to take it; null: there was none.
 * @returns null where it has changed since; nothing was taken then.
 */
export const takeLeaseAsSeen = (
  writer: Connection,
  holder: Holder,
  expiresAt: string,
  seen: LeaseRow | null,
): Promise<TakenLease | null> =>
  writer.transaction(async (tx) => (isSameLease(await readLease(tx), seen) ? take(tx, holder, expiresAt) : null));

export const isSameLease = (a: LeaseRow | null, b: LeaseRow | null): boolean =>
  a?.epoch === b?.epoch && a?.expiresAt === b?.expiresAt;

const take = async (tx: SqlTransaction, holder: Holder, expiresAt: string): Promise<TakenLease> => {
  const [row] = await tx.query<TakenLease>(
    `INSERT INTO scheduler_lease (id, instance_id, holder, epoch, expires_at) VALUES (1, ?, ?, 1, ?)
     ON CONFLICT (id) DO UPDATE SET holder = excluded.holder, epoch = epoch + 1, expires_at = excluded.expires_at
     RETURNING instance_id, epoch`,
    [randomUUID(), JSON.stringify(holder), expiresAt],
  );
  return row!;
};

/** Says that the holder is alive. The transaction has found the epoch to be its own. */
export const renewLease = async (tx: Tx, expiresAt: string): Promise<void> => {
  await tx.run("UPDATE scheduler_lease SET expires_at = ? WHERE id = 1", [expiresAt]);
};

/** Gives the lease back, so that the next scheduler need not wait for its end. */
export const releaseLease = (tx: Tx): Promise<void> => renewLease(tx, RELEASED);
