import { dirname, join } from "node:path";
import { fileOfUrl } from "@orchestrator/shared/storage/connection.ts";
import { type KernelLock, takeKernelLock } from "@orchestrator/shared/storage/kernel_lock.ts";
import { openReadOnly } from "@orchestrator/shared/storage/open.ts";
import { type Holder, readHolder } from "@orchestrator/shared/storage/take_lease.ts";

/** There is a scheduler on this database already; it is the only one there may be. */
export class SchedulerRunningError extends Error {
  readonly code = "scheduler_running";

  constructor(holder: Holder | null) {
    const who = holder
      ? `pid ${holder.pid} on ${holder.host}, since ${holder.since}`
      : "a process that has not named itself yet";
    super(`another scheduler works on this database: ${who}. There may be only one; stop that one first`);
    this.name = "SchedulerRunningError";
  }
}

/**
 * Takes the lock that makes this process the only scheduler of a file database. Taken before anything else is done with it,
 * the migration included.
 * @throws {SchedulerRunningError} naming the holder.
 */
export const takeSchedulerLock = async (dbUrl: string): Promise<KernelLock> => {
  const lock = await takeKernelLock(join(dirname(fileOfUrl(dbUrl)), "scheduler.lock.db"));
  if (lock) return lock;
  throw new SchedulerRunningError(await findHolder(dbUrl));
};

/** The name is for people; where it cannot be read (the holder is just making the database) the lock still counts. */
const findHolder = async (dbUrl: string): Promise<Holder | null> => {
  try {
    const connection = await openReadOnly(dbUrl, null);
    try {
      return (await readHolder(connection))?.holder ?? null;
    } finally {
      await connection.close();
    }
  } catch {
    return null;
  }
};
