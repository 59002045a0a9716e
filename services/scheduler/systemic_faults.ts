import type { Clock } from "@orchestrator/shared/clock.ts";
import type { Log } from "@orchestrator/shared/log.ts";
import { backoffMs } from "@orchestrator/shared/retry_delay.ts";
import type { TaskEvent } from "@orchestrator/shared/schemas/rows.ts";
import type { BegunRun, EndedRun } from "@orchestrator/shared/storage/committed.ts";
import { deletePause } from "@orchestrator/shared/storage/delete_pause.ts";
import { insertPause } from "@orchestrator/shared/storage/insert_pause.ts";
import { type Pause, readPauses } from "@orchestrator/shared/storage/read_pauses.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";
import { afterEnd, type Streaks, scopesOf, TASKS_IN_A_ROW } from "./fault_streaks.ts";
import { findingOf } from "./run_finding.ts";

const FIRST_PROBE_MS = 60_000;
const LONGEST_PROBE_MS = 30 * 60_000;

/** Begins the reason of a pause that this made, so that it is known as its own after a restart. */
const OWN_REASON = "systemic fault: ";

/** A pause that this made. */
interface OwnPause {
  /** How many probes have met the fault. */
  probes: number;
  probeAtMs: number;
  /** The run that finds out whether the fault is gone; null: one is awaited. */
  probedBy: number | null;
}

/**
 * Stops a fault of the surroundings from walking through the queue: when the same class of tool error has hit jobs of three
 * different tasks in a row, the agent, the repository or staging is paused (`fault_streaks.ts` decides which). After a backoff
 * one job goes as a probe; where it meets something else than a tool error, claiming goes on, else the next probe waits
 * longer; one that finds nothing out (`run_finding.ts`) is made again. A person can end it any time.
 */
export class SystemicFaults {
  readonly #storage: Storage;
  readonly #clock: Clock;
  readonly #log: Log;
  #streaks: Streaks = new Map();
  readonly #underWay = new Map<number, BegunRun>();
  readonly #pauses = new Map<string, OwnPause>();
  readonly #listeners = new Set<() => void>();
  #working: Promise<void> = Promise.resolve();

  constructor({ storage, clock, log }: { storage: Storage; clock: Clock; log: Log }) {
    this.#storage = storage;
    this.#clock = clock;
    this.#log = log;
    // From the commits alone, in their order: whoever asked for one is answered later, when the next may have come, or never.
    storage.onCommitted(({ events, begun, ended }) => {
      for (const event of events) this.#sawEvent(event);
      for (const run of begun) this.#sawBegin(run);
      for (const run of ended) this.#sawEnd(run);
    });
  }

  /** Takes up the pauses that an earlier process had made. */
  restore(pauses: readonly Pause[]): void {
    for (const what of ownAmong(pauses)) this.#await(what, 0);
  }

  /** What is paused but may be claimed from once, now. */
  probes(): Set<string> {
    const nowMs = this.#clock.monotonicMs();
    const due = [...this.#pauses].filter(([, pause]) => pause.probedBy === null && pause.probeAtMs <= nowMs);
    return new Set(due.map(([what]) => what));
  }

  /**
   * Milliseconds until a probe becomes due that was not yet due at `lookedAtMs`; null where there is none. One that is due
   * needs no timer: it waits for a job, and a job that comes wakes by itself.
   * @param lookedAtMs on the monotonic clock; default now.
   */
  nextProbeInMs(lookedAtMs = this.#clock.monotonicMs()): number | null {
    const awaited = [...this.#pauses.values()].filter((pause) => pause.probedBy === null);
    const later = awaited.map((pause) => pause.probeAtMs).filter((ms) => ms > lookedAtMs);
    return later.length === 0 ? null : Math.max(0, Math.min(...later) - this.#clock.monotonicMs());
  }

  /** Calls `listener` whenever another probe is awaited; it must not throw. @returns a function that ends it. */
  onProbeAwaited(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Resolves when all that has been told of has been dealt with. */
  async idle(): Promise<void> {
    await this.#working;
  }

  /** What it remembers, for tests to look at: the runs under way, by id, and its pauses, by what is paused. */
  snapshot(): { underWay: number[]; pauses: Record<string, Readonly<OwnPause>> } {
    return { underWay: [...this.#underWay.keys()], pauses: Object.fromEntries(this.#pauses) };
  }

  #sawEvent({ kind, detail }: TaskEvent): void {
    const what = String(detail.what);
    // What a person has paused, or paused anew, is theirs to end.
    if (kind === "resumed" || (kind === "paused" && detail.by === "person")) this.#pauses.delete(what);
    else if (kind === "paused" && detail.by === "scheduler") this.#await(what, 0);
  }

  /** A claim within something paused is its probe. */
  #sawBegin(run: BegunRun): void {
    this.#underWay.set(run.runId, run);
    const due = this.probes();
    for (const what of scopesOf(run)) if (due.has(what)) this.#pauses.get(what)!.probedBy = run.runId;
  }

  /** Whoever ended the run: its own settle, a person, the reaper in its place. */
  #sawEnd(ended: EndedRun): void {
    const run = this.#underWay.get(ended.runId);
    if (!run) return;
    this.#underWay.delete(ended.runId);
    // Apart from the transaction that told of it, and one after the other.
    this.#working = this.#working
      .then(() => this.#settled(run, ended))
      .catch((error: unknown) => {
        this.#log.error(
          { err: error, runId: ended.runId },
          "what a run's end says about a systemic fault could not be recorded",
        );
      });
  }

  async #settled(run: BegunRun, ending: EndedRun): Promise<void> {
    const finding = findingOf(ending);
    const probed = this.#probedBy(run);
    const failed = finding.kind === "fault" ? 1 : 0;
    // Until it is resumed in the database it stays awaited here: a write that fails is made good by the next probe.
    for (const what of probed) this.#await(what, this.#pauses.get(what)!.probes + failed);
    const { streaks, pause } = afterEnd(this.#streaks, { ...run, finding }, new Set(this.#pauses.keys()));
    this.#streaks = streaks;
    if (finding.kind === "well") await this.#resume(probed, run.runId);
    if (finding.kind === "fault" && pause !== null) await this.#pause(pause, finding.class, ending.reason);
  }

  async #pause(what: string, fault: string, lastReason: string | null): Promise<void> {
    const reason = `${OWN_REASON}${fault} on jobs of ${TASKS_IN_A_ROW} tasks in a row; the last: ${lastReason ?? "no reason given"}`;
    const isPaused = await this.#storage.write(async (tx) => {
      // Somebody may have paused it by hand meanwhile: that pause is theirs to end.
      if ((await readPauses(tx)).some((pause) => pause.what === what)) return false;
      await insertPause(tx, what, reason);
      await tx.event("paused", { taskId: null }, { what, reason, class: fault, by: "scheduler" });
      return true;
    });
    if (isPaused)
      this.#log.error({ what, class: fault, reason }, "paused: the same tool error hit several tasks in a row");
  }

  async #resume(probed: readonly string[], runId: number): Promise<void> {
    if (probed.length === 0) return;
    const resumed = await this.#storage.write(async (tx) => {
      // Somebody may have paused it by hand meanwhile: that pause is theirs to end.
      const own = ownAmong(await readPauses(tx));
      const ended = probed.filter((what) => own.includes(what));
      for (const what of ended) {
        await deletePause(tx, what);
        await tx.event("resumed", { taskId: null }, { what, by: "probe" });
      }
      return ended;
    });
    for (const what of probed) this.#pauses.delete(what);
    for (const what of resumed) this.#log.info({ what, runId }, "resumed: a probe went through");
  }

  #probedBy(run: BegunRun): string[] {
    return scopesOf(run).filter((what) => this.#pauses.get(what)?.probedBy === run.runId);
  }

  #await(what: string, probes: number): void {
    const probeAtMs = this.#clock.monotonicMs() + backoffMs(probes + 1, FIRST_PROBE_MS, LONGEST_PROBE_MS);
    this.#pauses.set(what, { probes, probeAtMs, probedBy: null });
    for (const listener of this.#listeners) listener();
  }
}

const ownAmong = (pauses: readonly Pause[]): string[] =>
  pauses.filter(({ reason }) => reason.startsWith(OWN_REASON)).map(({ what }) => what);
