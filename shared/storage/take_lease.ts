import { randomUUID } from "node:crypto";
import type { Connection } from "./connection.ts";

/** Who holds the scheduler lock, for people: another scheduler names it when it has to give up. */
export interface Holder {
  host: string;
  pid: number;
  /** ISO 8601. */
  since: string;
}

/**
 * Makes this process the scheduler of the database: the epoch grows by one, so that every write of an earlier holder is
 * refused from here on. The instance id is made once for a database and kept.
 * @returns the instance id and the epoch that this process now writes under.
 */
export const takeLease = async (
  writer: Connection,
  holder: Holder,
  expiresAt: string,
): Promise<{ instanceId: string; epoch: number }> =>
  writer.transaction(async (tx) => {
    const [row] = await tx.query<{ instanceId: string; epoch: number }>(
      `INSERT INTO scheduler_lease (id, instance_id, holder, epoch, expires_at) VALUES (1, ?, ?, 1, ?)
       ON CONFLICT (id) DO UPDATE SET holder = excluded.holder, epoch = epoch + 1, expires_at = excluded.expires_at
       RETURNING instance_id, epoch`,
      [randomUUID(), JSON.stringify(holder), expiresAt],
    );
    return row!;
  });

/** @returns the holder that took the lease last, or null where nobody ever did. */
export const readHolder = async (
  connection: Pick<Connection, "query">,
): Promise<{ instanceId: string; holder: Holder; epoch: number } | null> => {
  const [row] = await connection.query<{ instanceId: string; holder: string; epoch: number }>(
    "SELECT instance_id, holder, epoch FROM scheduler_lease WHERE id = 1",
  );
  return row ? { ...row, holder: JSON.parse(row.holder) as Holder } : null;
};
