import { setTimeout as sleep } from "node:timers/promises";
import { createClient, LibsqlError } from "@libsql/client";

/**
 * Resolves when nobody holds the lock that `takeKernelLock` takes; whoever is first has it then. It looks through one
 * connection, however long it waits: one that was closed keeps its file open until the garbage is collected, and a process
 * that only waits makes none. Its close, whenever that is, takes no lock from the process that has it by then: SQLite sees to
 * that among its own connections.
 *
 * @param path the lock file; where it is replaced meanwhile, what counts is the file that stood there first.
 * @param everyMs how soon it looks again. The kernel tells nobody that a lock has become free.
 * @throws the signal's reason once it is aborted; the driver's errors where the file cannot be used.
 */
export const awaitKernelLock = async (
  path: string,
  { everyMs, signal }: { everyMs: number; signal: AbortSignal },
): Promise<void> => {
  const client = createClient({ url: `file:${path}`, concurrency: 1, timeout: 0 });
  try {
    do await sleep(everyMs, undefined, { signal });
    while (await isHeld(client));
  } finally {
    client.close();
  }
};

/** Not by a transaction of the driver's: after one that was refused its connection is not to be trusted. */
const isHeld = async (client: ReturnType<typeof createClient>): Promise<boolean> => {
  try {
    await client.executeMultiple("BEGIN IMMEDIATE; ROLLBACK");
    return false;
  } catch (error) {
    if (error instanceof LibsqlError && error.code.startsWith("SQLITE_BUSY")) return true;
    throw error;
  }
};
