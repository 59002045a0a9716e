import { setTimeout as sleep } from "node:timers/promises";
import { type Clock, isoTime } from "@orchestrator/shared/clock.ts";
import type { Log } from "@orchestrator/shared/log.ts";
import { FencedOffError } from "@orchestrator/shared/storage/check_epoch.ts";
import { ANSWER_LIMIT_MS, type Connection } from "@orchestrator/shared/storage/connection.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";
import {
  type Holder,
  isReleased,
  isSameLease,
  type LeaseRow,
  readLease,
  releaseLease,
  renewLease,
  type TakenLease,
  takeLeaseAsSeen,
} from "@orchestrator/shared/storage/take_lease.ts";
import { SchedulerRunningError } from "./scheduler_lock.ts";
import { writeSurely } from "./write_surely.ts";

/** A holder renews so often within its time to live, and a challenger looks. */
const PARTS_OF_TTL = 3;

/** What a server that is slow but healthy needs at most for one request, in ms: far away, and just woken from its sleep. */
const SLOW_ANSWER_MS = 3_000;

/**
 * How long a database server may take to answer a request of the holder's, in ms. Renewals wait behind all that is written, so
 * that whatever gets no answer (a connection that is dead without anybody's having said so) costs them that time: a third of
 * the time to live, so that a lease is still renewed in time where one request is lost, be it the renewal's own.
 *
 * The price: a server that takes longer passes for unreachable, and what was asked of it is written again, or refused with 503.
 * A time to live of less than 9 s is too short for both, and there a lost request may cost the lease.
 */
export const answerLimitMs = (ttlMs: number): number =>
  Math.min(Math.max(ttlMs / PARTS_OF_TTL, SLOW_ANSWER_MS), ANSWER_LIMIT_MS);

export interface ChallengeOptions {
  holder: Holder;
  ttlMs: number;
  /** True: wait until the lease can be had. */
  standby: boolean;
  clock: Clock;
  log: Log;
  signal: AbortSignal;
}

/**
 * Takes the lease of a database that no kernel lock guards. It is had at once where nobody holds it; else after the row has
 * not changed for one time to live, measured here: clocks of two machines are never compared.
 * @throws {SchedulerRunningError} where its holder renews it, unless in standby.
 */
export const challenge = async (writer: Connection, options: ChallengeOptions): Promise<TakenLease> => {
  const { holder, ttlMs, standby, clock, log, signal } = options;
  const look = () => readLeaseSurely(writer, options);
  let seen = await look();
  let sinceMs = clock.monotonicMs();
  for (;;) {
    if (seen === null || isReleased(seen) || clock.monotonicMs() - sinceMs >= ttlMs) {
      const taken = await takeLeaseAsSeen(writer, holder, expiry(clock, ttlMs), seen);
      if (taken) return taken;
    } else {
      log.debug({ holder: seen.holder, epoch: seen.epoch }, "waiting whether the lease is renewed");
      await sleep(ttlMs / PARTS_OF_TTL, undefined, { signal });
    }
    const now = await look();
    if (isSameLease(now, seen)) continue;
    if (now && !isReleased(now) && !standby) throw new SchedulerRunningError(now.holder);
    seen = now;
    sinceMs = clock.monotonicMs();
  }
};

/** In standby a server that cannot be reached is waited for, like a lease. */
const readLeaseSurely = (writer: Connection, { standby, log, signal }: ChallengeOptions): Promise<LeaseRow | null> =>
  standby ? writeSurely(() => readLease(writer), { what: "reading the lease", log, signal }) : readLease(writer);

const expiry = (clock: Clock, ttlMs: number): string => isoTime(clock.now() + ttlMs);

/** What makes sure that this process is still the scheduler before it does what cannot be taken back. */
export interface Tenure {
  /**
   * Resolves when this process may claim, spawn and push: at once where the kernel guards the lock, or the lease has been
   * renewed lately; else after it has been renewed.
   * @throws {FencedOffError} where another scheduler has taken over.
   */
  confirm(): Promise<void>;
  /** Why what keeps other schedulers off does so no longer, as far as this process knows; null where it does. */
  fault(): string | null;
  stop(): Promise<void>;
}

/**
 * Renews the lease every third of its time to live, and at once where trying to has taken longer than that. One that has
 * lapsed (the machine slept, the server could not be reached) is renewed before anything is done under it; where the epoch has
 * moved on, this process is no longer the scheduler.
 */
export class LeaseKeeper implements Tenure {
  readonly #storage: Storage;
  readonly #ttlMs: number;
  readonly #clock: Clock;
  readonly #log: Log;
  #renewedMs: number;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #renewing: Promise<void> | null = null;
  #stopped = false;

  constructor(options: {
    storage: Storage;
    ttlMs: number;
    clock: Clock;
    log: Log;
  }) {
    this.#storage = options.storage;
    this.#ttlMs = options.ttlMs;
    this.#clock = options.clock;
    this.#log = options.log;
    this.#renewedMs = options.clock.monotonicMs();
    this.#schedule(this.#ttlMs / PARTS_OF_TTL);
  }

  async confirm(): Promise<void> {
    if (this.#clock.monotonicMs() - this.#renewedMs >= this.#ttlMs) await this.#renew();
  }

  /** One that has lapsed is renewed by `confirm`, or that says why it cannot be. */
  fault(): string | null {
    return null;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    // A database that cannot be reached now keeps a lease that ends by itself.
    await this.#storage
      .write((tx) => releaseLease(tx))
      .catch((error: unknown) => {
        if (error instanceof FencedOffError) return;
        this.#log.warn({ err: error }, "the lease could not be given back");
      });
  }

  #schedule(inMs: number): void {
    if (this.#stopped) return;
    this.#timer = setTimeout(() => void this.#renewInTurn(), inMs);
  }

  async #renewInTurn(): Promise<void> {
    const beganMs = this.#clock.monotonicMs();
    try {
      await this.#renew();
    } catch (error) {
      if (!(error instanceof FencedOffError))
        this.#log.error(
          { err: error },
          "the lease could not be renewed; nothing is claimed, started or pushed once it has lapsed",
        );
    }
    this.#schedule(Math.max(0, this.#ttlMs / PARTS_OF_TTL - (this.#clock.monotonicMs() - beganMs)));
  }

  #renew(): Promise<void> {
    // From before the write: whoever looks at the row counts from when it changed, not from when this process heard of it.
    const beganMs = this.#clock.monotonicMs();
    this.#renewing ??= this.#storage
      .write((tx) => renewLease(tx, expiry(this.#clock, this.#ttlMs)))
      .then(() => {
        this.#renewedMs = beganMs;
      })
      .finally(() => {
        this.#renewing = null;
      });
    return this.#renewing;
  }
}
