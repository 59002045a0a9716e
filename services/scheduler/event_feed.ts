import { ChangeSignal } from "@orchestrator/shared/change_signal.ts";
import type { TaskEvent } from "@orchestrator/shared/schemas/rows.ts";
import { lastEventId, listEventsAfter } from "@orchestrator/shared/storage/read_events.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";

/** So many of the newest events are kept in memory, once for all readers: who keeps up asks the database nothing. */
const RECENT_EVENTS = 256;

/**
 * The history as those read it who follow it. Nothing is kept for any reader: each says after which event it goes on, and is
 * answered from the newest events in memory or, where it is further behind, from the database.
 */
export class EventFeed {
  readonly #storage: Pick<Storage, "query">;
  readonly #committed = new ChangeSignal();
  /** The newest events, without a gap, oldest first. */
  #recent: TaskEvent[] = [];

  constructor(storage: Pick<Storage, "query" | "onCommitted">) {
    this.#storage = storage;
    storage.onCommitted(({ events }) => this.#take(events));
  }

  /** The id of the newest event; 0 where there is none. */
  async lastId(): Promise<number> {
    return this.#recent.at(-1)?.id ?? (await lastEventId(this.#storage));
  }

  /** The first events after an id, oldest first; none where there are none yet. */
  async after(id: number, limit: number): Promise<readonly TaskEvent[]> {
    const [oldest] = this.#recent;
    if (oldest === undefined || id < oldest.id - 1) return listEventsAfter(this.#storage, id, limit);
    const from = this.#recent.findIndex((event) => event.id > id);
    return from === -1 ? [] : this.#recent.slice(from, from + limit);
  }

  /**
   * Waits for an event after an id.
   * @param timeoutMs how long to wait at most, in ms.
   * @returns false where there was none in that time, or the signal was aborted.
   */
  async more(id: number, options: { timeoutMs: number; signal: AbortSignal }): Promise<boolean> {
    if ((this.#recent.at(-1)?.id ?? 0) > id) return true;
    return this.#committed.wait(options);
  }

  #take(events: readonly TaskEvent[]): void {
    if (events.length === 0) return;
    for (const event of events) {
      const last = this.#recent.at(-1);
      // What is kept must have no gap: a reader could not tell that it has missed something.
      if (last !== undefined && event.id !== last.id + 1) this.#recent = [];
      this.#recent.push(event);
    }
    if (this.#recent.length > 2 * RECENT_EVENTS) this.#recent = this.#recent.slice(-RECENT_EVENTS);
    this.#committed.notify();
  }
}
