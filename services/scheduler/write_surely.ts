import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "@orchestrator/shared/log.ts";
import { backoffMs } from "@orchestrator/shared/retry_delay.ts";
import { isPassing } from "@orchestrator/shared/storage/is_passing.ts";

const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 10_000;

export interface SureWrite {
  what: string;
  log: Log;
  /** Told before the first try and after the last: time spent waiting for the database is nobody's work. */
  onWait?: (waiting: boolean, waitsFor: "write") => void;
  signal?: AbortSignal;
}

/** The scheduler stops, and waits no longer until something can be written: the next start finds out what it was. */
export class UnwrittenError extends Error {
  readonly code = "unwritten";

  constructor() {
    super("the scheduler stops, and the database could not be written");
    this.name = "UnwrittenError";
  }
}

/**
 * Writes what has happened, however long the database cannot be written (locked, unreachable, disk full): work that
 * succeeded is never recorded as failed because recording failed. `write` must read before it writes, since an earlier try
 * may have been committed.
 * @throws what will not pass by waiting, and the signal's reason once it is aborted.
 */
export const writeSurely = async <T>(write: () => Promise<T>, { what, log, onWait, signal }: SureWrite): Promise<T> => {
  // A try that succeeds in the end has waited as well, for a lock that somebody held meanwhile.
  onWait?.(true, "write");
  try {
    for (let tries = 1; ; tries++) {
      try {
        return await write();
      } catch (error) {
        if (!isPassing(error)) throw error;
        if (signal?.aborted) {
          log.error({ err: error, what, tries }, "the database cannot be used, and is waited for no longer");
          throw signal.reason;
        }
        const pauseMs = backoffMs(tries, FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
        log.error({ err: error, what, tries, retryInMs: pauseMs }, "the database cannot be used; trying again");
        await sleep(pauseMs, undefined, signal ? { signal } : undefined).catch(() => signal?.throwIfAborted());
      }
    }
  } finally {
    onWait?.(false, "write");
  }
};
