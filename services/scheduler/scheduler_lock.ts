import type { Config } from "@orchestrator/shared/config/config.ts";
import { isThere } from "@orchestrator/shared/is_there.ts";
import type { Log } from "@orchestrator/shared/log.ts";
import { awaitKernelLock } from "@orchestrator/shared/storage/await_kernel_lock.ts";
import { isFileUrl } from "@orchestrator/shared/storage/connection.ts";
import { type KernelLock, takeKernelLock } from "@orchestrator/shared/storage/kernel_lock.ts";
import { openReadOnly } from "@orchestrator/shared/storage/open.ts";
import { type Holder, readLease } from "@orchestrator/shared/storage/take_lease.ts";
import { unusableDatabase } from "@orchestrator/shared/storage/unusable_database.ts";
import { lockFileOf } from "./lock_file.ts";

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

/** How soon a scheduler in standby looks again whether the lock is free, in ms. */
const STANDBY_LOOK_MS = 250;

/**
 * Takes the lock that makes this process the only scheduler of a file database. Taken before anything else is done with it,
 * the migration included. In standby it waits until the lock can be had.
 * @throws {SchedulerRunningError} naming the holder, unless in standby; the signal's reason once it is aborted.
 */
export const takeSchedulerLock = async (
  dbUrl: string,
  {
    config,
    log,
    signal,
    lookMs = STANDBY_LOOK_MS,
  }: { config: Pick<Config, "standby">; log: Log; signal: AbortSignal; lookMs?: number },
): Promise<KernelLock> => {
  const lockFile = await lockFileOf(dbUrl);
  for (let tries = 0; ; tries++) {
    const lock = await takeLock(lockFile);
    if (lock) return lock;
    if (tries === 0) {
      const holder = await findHolder(dbUrl);
      if (!config.standby) throw new SchedulerRunningError(holder);
      log.info({ holder }, "in standby: another scheduler works on this database");
    }
    await awaitKernelLock(lockFile, { everyMs: lookMs, signal }).catch(unusableLock(lockFile));
  }
};

export type LockState = { kind: "free" } | { kind: "held"; holder: Holder | null };

/**
 * Looks whether a scheduler works on a file database, without making anything. A free lock is held for the moment of the
 * look: a scheduler that starts in that very moment is refused, one that runs notices nothing.
 */
export const lookAtLock = async (dbUrl: string): Promise<LockState> => {
  const file = await lockFileOf(dbUrl);
  // Where that cannot be found out, whoever tries to take it says what is wrong with the file.
  if (!(await isThere(file).catch(() => true))) return { kind: "free" };
  const lock = await takeLock(file);
  if (lock === null) return { kind: "held", holder: await findHolder(dbUrl) };
  lock.release();
  return { kind: "free" };
};

/**
 * A second scheduler is likely to be told first that its port is taken; that it is a second one is what matters, unless it
 * came to stand by: then it needs a port of its own.
 */
export const whyNotListening = async (
  error: unknown,
  { dbUrl, standby }: Pick<Config, "dbUrl" | "standby">,
): Promise<unknown> => {
  if ((error as { code?: unknown }).code !== "address_in_use" || standby || !isFileUrl(dbUrl)) return error;
  const lock = await lookAtLock(dbUrl);
  return lock.kind === "held" ? new SchedulerRunningError(lock.holder) : error;
};

const takeLock = async (file: string): Promise<KernelLock | null> => takeKernelLock(file).catch(unusableLock(file));

const unusableLock = (file: string) => (error: unknown) => {
  throw unusableDatabase(error, `file:${file}`, "remove it while no scheduler runs: it holds nothing but the lock");
};

/** The name is for people; where it cannot be read (the holder is just making the database) the lock still counts. */
const findHolder = async (dbUrl: string): Promise<Holder | null> => {
  try {
    const connection = await openReadOnly(dbUrl, null);
    try {
      return (await readLease(connection))?.holder ?? null;
    } finally {
      await connection.close();
    }
  } catch {
    return null;
  }
};
