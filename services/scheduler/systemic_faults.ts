import type { Clock } from "@orchestrator/shared/clock.ts";
import type { Log } from "@orchestrator/shared/log.ts";
import { backoffMs } from "@orchestrator/shared/retry_delay.ts";
import type { Claim } from "@orchestrator/shared/storage/claim_job.ts";
import type { EndedRun } from "@orchestrator/shared/storage/committed.ts";
import { deletePause } from "@orchestrator/shared/storage/delete_pause.ts";
import { insertPause } from "@orchestrator/shared/storage/insert_pause.ts";
import { type Pause, readPauses } from "@orchestrator/shared/storage/read_pauses.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";
import { afterEnd, type Place, type Streaks, scopesOf, TASKS_IN_A_ROW } from "./fault_streaks.ts";
import { STAGER_UNREACHABLE } from "./run_result.ts";

const FIRST_PROBE_MS = 60_000;
const LONGEST_PROBE_MS = 30 * 60_000;

/** Begins the reason of a pause that this made, so that it is known as its own after a restart. */
const OWN_REASON = "systemic fault: ";

/**
 * Stops a fault of the surroundings from walking through the queue: when the same class of tool error has hit jobs of three
 * different tasks in a row, the agent, the repository or staging is paused (`fault_streaks.ts` decides which). After a backoff
 * one job goes as a probe; where it meets something else than a tool error, claiming goes on, else the next probe waits
 * longer. A person can end it any time.
 */
export class SystemicFaults {
  readonly #storage: Storage;
  readonly #clock: Clock;
  readonly #log: Log;
  #streaks: Streaks = new Map();
  /** The runs that are under way, with what they were claimed with. */
  readonly #claims = new Map<number, Claim>();
  #working: Promise<void> = Promise.resolve();
  readonly #pauses = new Map<string, { probes: number; probeAtMs: number; probedBy: number | null }>();

  constructor({ storage, clock, log }: { storage: Storage; clock: Clock; log: Log }) {
    this.#storage = storage;
    this.#clock = clock;
    this.#log = log;
    storage.onCommitted(({ events, ended }) => {
      for (const { kind, detail } of events) {
        // What a person has paused, or paused anew, is theirs to end.
        if (kind === "resumed" || (kind === "paused" && detail.by === "person"))
          this.#pauses.delete(String(detail.what));
        else if (kind === "paused" && detail.by === "scheduler") this.#await(String(detail.what), 0);
      }
      for (const run of ended) this.#sawEnd(run);
    });
  }

  /** Takes up the pauses that an earlier process had made. */
  restore(pauses: readonly Pause[]): void {
    for (const { what, reason } of pauses) if (reason.startsWith(OWN_REASON)) this.#await(what, 0);
  }

  /** What is paused but may be claimed from once, now. */
  probes(): Set<string> {
    const nowMs = this.#clock.monotonicMs();
    const due = [...this.#pauses].filter(([, pause]) => pause.probedBy === null && pause.probeAtMs <= nowMs);
    return new Set(due.map(([what]) => what));
  }

  /** Milliseconds until the next probe is due; null where none is awaited. */
  nextProbeInMs(): number | null {
    const awaited = [...this.#pauses.values()].filter((pause) => pause.probedBy === null);
    if (awaited.length === 0) return null;
    return Math.max(0, Math.min(...awaited.map((pause) => pause.probeAtMs)) - this.#clock.monotonicMs());
  }

  /** Resolves when all that has been told of has been dealt with. */
  async idle(): Promise<void> {
    await this.#working;
  }

  /** Told of every claim, at once: a claim within something paused is its probe. */
  claimed(claim: Claim): void {
    this.#claims.set(claim.run.id, claim);
    const due = this.probes();
    for (const what of scopesOf(placeOf(claim))) {
      const pause = this.#pauses.get(what);
      if (pause && due.has(what)) pause.probedBy = claim.run.id;
    }
  }

  /** Whoever ended the run: its own settle, a person, the reaper in its place. */
  #sawEnd(ended: EndedRun): void {
    const claim = this.#claims.get(ended.runId);
    if (!claim) return;
    this.#claims.delete(ended.runId);
    // Apart from the transaction that told of it, and one after the other.
    this.#working = this.#working
      .then(() => this.#settled(claim, ended))
      .catch((error: unknown) => {
        this.#log.error(
          { err: error, runId: ended.runId },
          "what a run's end says about a systemic fault could not be recorded",
        );
      });
  }

  async #settled(claim: Claim, ending: EndedRun): Promise<void> {
    const fault = ending.outcome === "tool_error" && !NOT_SYSTEMIC.has(ending.class ?? "") ? ending.class : null;
    const place = placeOf(claim);
    for (const what of scopesOf(place)) await this.#afterProbe(what, claim.run.id, ending, fault);
    const end = { ...place, taskId: claim.task.id, fault };
    const { streaks, pause } = afterEnd(this.#streaks, end, new Set(this.#pauses.keys()));
    this.#streaks = streaks;
    if (fault !== null && pause !== null) await this.#pause(pause, fault, ending.reason);
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
    if (!isPaused) return;
    this.#log.error({ what, class: fault, reason }, "paused: the same tool error hit several tasks in a row");
  }

  async #afterProbe(what: string, runId: number, ending: EndedRun, fault: string | null): Promise<void> {
    const pause = this.#pauses.get(what);
    if (pause?.probedBy !== runId) return;
    if (foundNothing(ending)) return this.#await(what, pause.probes);
    if (fault !== null) return this.#await(what, pause.probes + 1);
    // Until it is resumed in the database it stays awaited here: a write that fails is made good by the next probe.
    this.#await(what, pause.probes);
    await this.#storage.write(async (tx) => {
      if (await deletePause(tx, what)) await tx.event("resumed", { taskId: null }, { what, by: "probe" });
    });
    this.#pauses.delete(what);
    this.#log.info({ what, runId }, "resumed: a probe went through");
  }

  #await(what: string, probes: number): void {
    const probeAtMs = this.#clock.monotonicMs() + backoffMs(probes + 1, FIRST_PROBE_MS, LONGEST_PROBE_MS);
    this.#pauses.set(what, { probes, probeAtMs, probedBy: null });
  }
}

/** Tool errors that are waited out by other means, or that are everybody's at once. */
const NOT_SYSTEMIC: ReadonlySet<string> = new Set([STAGER_UNREACHABLE, "database"]);

/** A probe that was interrupted, cancelled, lost or taken over says nothing about the fault. */
const foundNothing = ({ outcome, class: endedAs }: EndedRun): boolean =>
  outcome === "interrupted" ||
  outcome === "cancelled" ||
  (outcome === "superseded" && endedAs === null) ||
  endedAs === "lost" ||
  NOT_SYSTEMIC.has(endedAs ?? "");

const placeOf = ({ job, task }: Claim): Place => ({ agent: job.agent, repo: task.repo, stage: job.stage });
