import { dirname } from "node:path";
import { setImmediate } from "node:timers";
import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "@orchestrator/shared/clock.ts";
import { secretsOf } from "@orchestrator/shared/config/secrets.ts";
import type { Log } from "@orchestrator/shared/log.ts";
import { createRedactor } from "@orchestrator/shared/redact.ts";
import type { Notification } from "@orchestrator/shared/schemas/notification.ts";
import type { Committed } from "@orchestrator/shared/storage/committed.ts";
import { readTask } from "@orchestrator/shared/storage/read_task.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";
import { type Notice, toNotification, wordOf } from "./notification.ts";
import { createCommandDelivery } from "./notify_command.ts";
import { createUrlDelivery } from "./notify_url.ts";
import type { RunContext } from "./run_context.ts";
import { StagerOutage } from "./stager_outage.ts";
import { tempFolderOf } from "./temp_folder.ts";

export type Delivery = { tries: number } & ({ kind: "delivered" } | { kind: "failed"; reason: string });

/** Takes one notification to whoever is to be told. Bounded in time. @throws the signal's reason once it is aborted. */
export type Deliver = (notification: Notification, signal: AbortSignal) => Promise<Delivery>;

export interface NotifierOptions {
  /** The words of `notify.on`. */
  on: readonly string[];
  deliver: Deliver;
  /** Values that no notification may hold. */
  secrets: readonly string[];
  storage: Pick<Storage, "onCommitted" | "query">;
  clock: Clock;
  log: Log;
  /** How many wait at most; the oldest give way. Default 1,000. */
  maxWaiting?: number;
  /** How many are being delivered at once. Default 4. */
  concurrency?: number;
}

/**
 * Tells people what needs them. It is fed by what has been committed and never in the way of a commit: an event is put into a
 * queue in memory, and delivered from there. What has not been delivered when the process ends is lost; the history has all
 * of it. Deliveries may overtake one another.
 */
export class EventNotifier {
  readonly #options: Required<NotifierOptions>;
  readonly #on: ReadonlySet<string>;
  readonly #redact: (value: unknown) => unknown;
  readonly #outage = new StagerOutage();
  readonly #abort = new AbortController();
  readonly #counts = { delivered: 0, failed: 0, dropped: 0 };
  readonly #waiting: Notice[] = [];
  #unsubscribe: (() => void) | null = null;
  #workers = 0;
  #whenIdle: (() => void)[] = [];

  constructor(options: NotifierOptions) {
    this.#options = { maxWaiting: 1_000, concurrency: 4, ...options };
    this.#on = new Set(options.on);
    this.#redact = createRedactor(options.secrets);
  }

  start(): void {
    this.#unsubscribe ??= this.#options.storage.onCommitted((committed) => this.#take(committed));
  }

  /**
   * Takes no more events, delivers what waits for at most `withinMs`, and then ends what is still under way. Resolves when
   * nothing of it runs any more.
   */
  async stop(withinMs: number): Promise<void> {
    this.#unsubscribe?.();
    const timer = new AbortController();
    await Promise.race([this.#idle(), sleep(withinMs, undefined, { signal: timer.signal }).catch(() => undefined)]);
    timer.abort();
    const undelivered = this.#waiting.splice(0).length + this.#workers;
    this.#abort.abort(new Error("the scheduler stops"));
    await this.#idle();
    const { log } = this.#options;
    if (undelivered > 0) log.warn({ undelivered }, "stopped before every notification was delivered");
    log.info(this.#counts, "notifications");
  }

  #take({ events }: Pick<Committed, "events">): void {
    for (const event of events) {
      const word = wordOf(event);
      if (word !== null) this.#put({ on: word, event, reason: null });
      const awayMs = this.#outage.see(event, this.#options.clock.monotonicMs());
      if (awayMs === null) continue;
      const minutes = Math.floor(awayMs / 60_000);
      const reason = `no stager could be reached for ${minutes} minutes: ${event.detail.reason ?? "no reason was given"}`;
      this.#put({ on: "paused", event, reason });
    }
  }

  #put(notice: Notice): void {
    if (!this.#on.has(notice.on)) return;
    const { maxWaiting, concurrency, log } = this.#options;
    this.#waiting.push(notice);
    if (this.#waiting.length > maxWaiting) {
      const dropped = this.#waiting.shift()!;
      this.#counts.dropped += 1;
      log.warn(
        { eventId: dropped.event.id, on: dropped.on, droppedSoFar: this.#counts.dropped },
        "dropped the oldest notification: more come than can be delivered",
      );
    }
    if (this.#workers >= concurrency) return;
    this.#workers += 1;
    // Not within the commit that brought it.
    setImmediate(() => void this.#work());
  }

  /** Delivers one after the other until none waits. Never rejects. */
  async #work(): Promise<void> {
    for (let notice = this.#waiting.shift(); notice !== undefined; notice = this.#waiting.shift()) {
      await this.#tell(notice);
    }
    this.#workers -= 1;
    if (this.#workers > 0) return;
    for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  async #tell(notice: Notice): Promise<void> {
    const { log, deliver } = this.#options;
    const { signal } = this.#abort;
    const about = { eventId: notice.event.id, on: notice.on };
    try {
      const delivery = await deliver(await this.#compose(notice), signal);
      this.#counts[delivery.kind] += 1;
      if (delivery.kind === "delivered") log.debug({ ...about, tries: delivery.tries }, "notified");
      else log.error({ ...about, ...delivery }, "a notification could not be delivered");
    } catch (error) {
      if (signal.aborted) return;
      this.#counts.failed += 1;
      log.error({ ...about, err: error }, "a notification could not be made");
    }
  }

  async #compose(notice: Notice): Promise<Notification> {
    const { taskId } = notice.event;
    const task = taskId === null ? null : await readTask(this.#options.storage, { id: taskId });
    return this.#redact(toNotification(notice, task)) as Notification;
  }

  #idle(): Promise<void> {
    return this.#workers === 0 ? Promise.resolve() : new Promise((resolve) => this.#whenIdle.push(resolve));
  }
}

/** The notifier that the configuration asks for; null where nobody is to be told anything. */
export const createNotifier = (
  context: Pick<RunContext, "config" | "storage" | "instanceId" | "clock" | "log" | "random">,
): EventNotifier | null => {
  const { config, instanceId, clock, random } = context;
  const { notify, parentEnv } = config;
  if (notify === null) return null;
  const { target } = notify;
  const deliver =
    target.kind === "url"
      ? createUrlDelivery({ ...target, clock, random })
      : createCommandDelivery({
          ...{ ...target, cwd: dirname(config.configPath), parentEnv, instanceId, clock },
          tempFolder: tempFolderOf(config.dataDir),
        });
  return new EventNotifier({ ...context, on: notify.on, deliver, secrets: secretsOf(config) });
};
