import { rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Log } from "@orchestrator/shared/log.ts";
import { namesIn } from "@orchestrator/shared/names_in.ts";
import { runLogFolder, runLogPath, runOfLog } from "./run_log_path.ts";

export interface StoredLog {
  runId: number;
  bytes: number;
  /** When it was last written to, in ms since the epoch. */
  writtenMs: number;
}

export interface LogRetentionOptions {
  dataDir: string;
  /** How much the logs of finished runs may take together (`ORCH_LOG_KEEP_BYTES`). */
  keepBytes: number;
  isOpen: (runId: number) => boolean;
  log: Log;
}

/** What a file takes on a disk at least, even an empty one: so the limit bounds how many there are as well. */
const LEAST_BYTES = 4096;

/** One part in so many of the limit: written since the last look it asks for the next, which makes room for as much. */
const SHARE = 16;

/**
 * Keeps the logs of runs below a size, by taking away those that were written to longest ago: a scheduler that is left alone
 * must not stop claiming one day because the disk is full of what agents said last year. The cost of a look grows with the
 * files there are, which the limit bounds, and is spread over what was written.
 */
export class LogRetention {
  readonly #options: LogRetentionOptions;
  #grownBytes = 0;
  #sweeping: Promise<void> | null = null;

  constructor(options: LogRetentionOptions) {
    this.#options = options;
  }

  /** Looks at what an earlier process left. It goes on behind the caller's back. */
  start(): void {
    this.#sweeping ??= this.#sweep();
  }

  /** Told of each log that has come to its end. */
  grown(bytes: number): void {
    this.#grownBytes += onDisk(bytes);
    if (this.#grownBytes >= this.#options.keepBytes / SHARE) this.start();
  }

  /** Resolves when no look is under way. */
  async idle(): Promise<void> {
    await this.#sweeping;
  }

  async #sweep(): Promise<void> {
    const { dataDir, keepBytes, isOpen, log } = this.#options;
    const folder = runLogFolder(dataDir);
    this.#grownBytes = 0;
    try {
      const logs = (await storedLogs(folder)).filter(({ runId }) => !isOpen(runId));
      const gone = oldestBeyond(logs, keepBytes - keepBytes / SHARE);
      for (const { runId } of gone) await rm(runLogPath(dataDir, runId), { force: true });
      if (gone.length > 0) log.info({ folder, logs: gone.length, keepBytes }, "removed the oldest logs of runs");
    } catch (error) {
      log.error(
        { err: error, folder },
        "old logs of runs could not be removed; it is tried again when more is written",
      );
    } finally {
      this.#sweeping = null;
    }
  }
}

/** Those that go, oldest first, so that the rest takes no more than `keepBytes`. */
export const oldestBeyond = (logs: readonly StoredLog[], keepBytes: number): StoredLog[] => {
  let excess = logs.reduce((sum, { bytes }) => sum + onDisk(bytes), 0) - keepBytes;
  const oldestFirst = [...logs].sort((a, b) => a.writtenMs - b.writtenMs || a.runId - b.runId);
  const gone: StoredLog[] = [];
  for (const log of oldestFirst) {
    if (excess <= 0) break;
    gone.push(log);
    excess -= onDisk(log.bytes);
  }
  return gone;
};

const onDisk = (bytes: number): number => Math.max(bytes, LEAST_BYTES);

const storedLogs = async (folder: string): Promise<StoredLog[]> => {
  const logs: StoredLog[] = [];
  for (const name of await namesIn(folder)) {
    const runId = runOfLog(name);
    if (runId === null) continue;
    const { size, mtimeMs } = await stat(join(folder, name));
    logs.push({ runId, bytes: size, writtenMs: mtimeMs });
  }
  return logs;
};
