import { STAGING_STAGE } from "@orchestrator/shared/domain.ts";
import { STAGER_UNREACHABLE } from "@orchestrator/shared/outcome_class.ts";
import type { TaskEvent } from "@orchestrator/shared/schemas/rows.ts";

/** A stager that is away for less than this is being restarted, in ms. */
export const OUTAGE_MS = 10 * 60_000;

/** Where nobody has asked for the stager for so long, what is met next is another outage, in ms. */
const FORGOTTEN_MS = 10 * 60_000;

/**
 * Watches for a stager that stays away. A job that cannot reach it goes back into the queue about once a minute; when that has
 * gone on for ten minutes a person should know, once, until the stager has answered and is away again. In memory only: a
 * restarted scheduler begins to count anew.
 */
export class StagerOutage {
  #sinceMs: number | null = null;
  #lastMs = 0;
  #told = false;

  /**
   * @param nowMs on the monotonic clock.
   * @returns for how long the stager has been away, in ms, the first time that it is too long; else null.
   */
  see({ kind, runId, detail }: Pick<TaskEvent, "kind" | "runId" | "detail">, nowMs: number): number | null {
    if (kind === "requeued" && detail.by === STAGER_UNREACHABLE) return this.#unreachable(nowMs);
    if (isAnswer(kind, runId, detail)) this.#end();
    return null;
  }

  #unreachable(nowMs: number): number | null {
    if (this.#sinceMs !== null && nowMs - this.#lastMs > FORGOTTEN_MS) this.#end();
    this.#sinceMs ??= nowMs;
    this.#lastMs = nowMs;
    const awayMs = nowMs - this.#sinceMs;
    if (this.#told || awayMs < OUTAGE_MS) return null;
    this.#told = true;
    return awayMs;
  }

  #end(): void {
    this.#sinceMs = null;
    this.#told = false;
  }
}

/** What only a stager's answer leads to: a defer, or a run that moved the task out of the staging stage. */
const isAnswer = (kind: TaskEvent["kind"], runId: number | null, detail: TaskEvent["detail"]): boolean =>
  kind === "deferred" ||
  ((kind === "advanced" || kind === "returned") && runId !== null && detail.from === STAGING_STAGE);
