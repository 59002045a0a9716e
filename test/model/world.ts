import { copyFile, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Committed } from "@orchestrator/shared/storage/committed.ts";
import { FakeClock } from "../helpers/fake_clock.ts";
import { SchedulerInHand, type Trap } from "./scheduler_in_hand.ts";

/** What the model is held against: a database file, the scheduler that holds it, and those that held it before and live on. */
export class World {
  readonly clock: FakeClock;
  readonly #path: string;
  scheduler: SchedulerInHand;
  /** Schedulers that were taken over and do not know it yet. */
  readonly zombies: SchedulerInHand[] = [];
  /** What those who listen have heard of so far, from whichever scheduler. */
  readonly told: Committed[];

  private constructor(path: string, clock: FakeClock, told: Committed[], scheduler: SchedulerInHand) {
    this.#path = path;
    this.clock = clock;
    this.told = told;
    this.scheduler = scheduler;
  }

  /** @param template a database that has been migrated and holds nothing. */
  static async make(folder: string, template: string): Promise<World> {
    const path = join(folder, `${crypto.randomUUID()}.db`);
    const clock = new FakeClock();
    await copyFile(template, path);
    const told: Committed[] = [];
    return new World(path, clock, told, await SchedulerInHand.open(path, clock, (committed) => told.push(committed)));
  }

  /** Another process takes the database; it has not begun. */
  async open(): Promise<SchedulerInHand> {
    return SchedulerInHand.open(this.#path, this.clock, (committed) => this.told.push(committed));
  }

  /** The process dies with all it had in memory; another one starts. @throws {DeadError} where the new one dies as well. */
  async restart(trap: Trap | null): Promise<void> {
    await this.scheduler.storage.close();
    this.scheduler = await this.open();
    await this.scheduler.begin(trap);
  }

  async remove(): Promise<void> {
    for (const { storage } of [this.scheduler, ...this.zombies]) await storage.close();
    for (const suffix of ["", "-wal", "-shm"]) await rm(this.#path + suffix, { force: true });
  }
}
