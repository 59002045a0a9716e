import { mkdir } from "node:fs/promises";
import type { Clock } from "@orchestrator/shared/clock.ts";
import { freeBytes, MIN_FREE_BYTES } from "@orchestrator/shared/disk_space.ts";
import type { Log } from "@orchestrator/shared/log.ts";

/** How often it is said that a disk is still full, in ms. */
const SAY_AGAIN_MS = 60 * 60_000;

/**
 * Sees whether there is room for another run, as often as it is asked, and says only what is news: that a disk has become
 * full, once an hour that it still is, and that there is room again.
 */
export class DiskSpaceWatch {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #kept: readonly string[];
  readonly #remade: readonly string[];
  /** Since when there has been too little space, and when it was last said; null: there is enough. */
  #full: { sinceMs: number; saidMs: number } | null = null;

  /**
   * Each folder has to have room, on whatever disk it is.
   * @param folders `remade`: those that are made again where somebody has deleted them, since what was in them would be; in
   * one that is `kept` stands what would not, and beneath it nothing is made again.
   */
  constructor(
    { clock, log }: { clock: Clock; log: Log },
    { kept, remade }: { kept: readonly string[]; remade: readonly string[] },
  ) {
    this.#clock = clock;
    this.#log = log;
    this.#kept = kept;
    this.#remade = remade;
  }

  /** @throws where a folder cannot be looked at. */
  async hasSpace(): Promise<boolean> {
    for (const folder of [...this.#kept, ...this.#remade]) {
      const free = await freeBytes(folder).catch((error: NodeJS.ErrnoException) => this.#makeAgain(folder, error));
      if (free >= MIN_FREE_BYTES) continue;
      this.#isFull(folder, free);
      return false;
    }
    this.#isRoomy();
    return true;
  }

  async #makeAgain(folder: string, error: NodeJS.ErrnoException): Promise<number> {
    if (error.code !== "ENOENT" || !this.#remade.includes(folder)) throw error;
    await mkdir(folder, { mode: 0o700 });
    this.#log.warn(
      { folder },
      "a folder was gone and has been made again: did somebody delete it, or is a disk missing?",
    );
    return freeBytes(folder);
  }

  #isFull(folder: string, free: number): void {
    const nowMs = this.#clock.monotonicMs();
    if (this.#full !== null && nowMs - this.#full.saidMs < SAY_AGAIN_MS) return;
    const sinceMs = this.#full?.sinceMs ?? nowMs;
    this.#full = { sinceMs, saidMs: nowMs };
    this.#log.warn(
      { folder, freeBytes: free, neededBytes: MIN_FREE_BYTES, forMs: Math.round(nowMs - sinceMs) },
      "not claiming: too little disk space is free; what runs goes on, and claiming does once there is room",
    );
  }

  #isRoomy(): void {
    if (this.#full === null) return;
    const forMs = Math.round(this.#clock.monotonicMs() - this.#full.sinceMs);
    this.#full = null;
    this.#log.info({ forMs }, "claiming again: enough disk space is free");
  }
}
