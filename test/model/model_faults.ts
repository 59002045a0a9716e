import { STAGING_STAGE } from "@orchestrator/shared/domain.ts";
import type { RunEnding } from "../../services/scheduler/run_result.ts";
import type { FakeClock } from "../helpers/fake_clock.ts";

export interface Place {
  agent: string;
  repo: string;
  stage: string;
}

const scopes = ({ agent, repo, stage }: Place): string[] => [
  `agent:${agent}`,
  `repo:${repo}`,
  ...(stage === STAGING_STAGE ? ["staging"] : []),
];

/** The repository's fault, staging's, or the agent's program's. */
const blamed = (fault: string, { agent, repo, stage }: Place): string =>
  fault.startsWith("git") || fault === "finalizer_expired"
    ? `repo:${repo}`
    : stage === STAGING_STAGE
      ? "staging"
      : `agent:${agent}`;

/**
 * The same class of tool error on jobs of three different tasks in a row of one agent, one repository, or staging pauses it;
 * one probe goes after 1 min, 2 min, … 30 min.
 */
export class ModelFaults {
  readonly #clock: FakeClock;
  readonly #streaks = new Map<string, { class: string; tasks: Set<number> }>();
  /** What it has paused itself. `probe`: the run that finds out whether the fault is gone. */
  readonly own = new Map<string, { failures: number; dueMs: number; probe: number | null }>();

  constructor(clock: FakeClock) {
    this.#clock = clock;
  }

  await(what: string, failures: number): void {
    const waitMs = Math.min(60_000 * 2 ** failures, 1_800_000);
    this.own.set(what, { failures, dueMs: this.#clock.monotonicMs() + waitMs, probe: null });
  }

  /** What may be claimed from although it is paused. */
  open(): Set<string> {
    const nowMs = this.#clock.monotonicMs();
    return new Set(
      [...this.own].filter(([, { probe, dueMs }]) => probe === null && dueMs <= nowMs).map(([what]) => what),
    );
  }

  claimed(place: Place, runId: number): void {
    const open = this.open();
    for (const what of scopes(place)) if (open.has(what)) this.own.get(what)!.probe = runId;
  }

  /**
   * A run has ended, by whomever.
   * @returns what is to be paused for which class of error, and what goes on (`fault` null).
   */
  ended(
    place: Place,
    { taskId, runId }: { taskId: number; runId: number },
    { outcome, class: endedAs }: Pick<RunEnding, "outcome" | "class">,
  ): { what: string; fault: string | null }[] {
    const changes: { what: string; fault: string | null }[] = [];
    const fault = outcome === "tool_error" && endedAs !== "stager_unreachable" ? endedAs : null;
    const foundNothing =
      ["interrupted", "cancelled"].includes(outcome) || ["lost", "stager_unreachable"].includes(endedAs!);
    for (const what of scopes(place)) {
      const own = this.own.get(what);
      if (own?.probe === runId) {
        if (foundNothing || fault !== null) this.await(what, own.failures + (foundNothing ? 0 : 1));
        else {
          this.own.delete(what);
          changes.push({ what, fault: null });
        }
      }
      if (fault === null || blamed(fault, place) !== what) {
        this.#streaks.delete(what);
        continue;
      }
      const streak = this.#streaks.get(what);
      const tasks = new Set(streak?.class === fault ? streak.tasks : []).add(taskId);
      this.#streaks.set(what, { class: fault, tasks });
      if (tasks.size < 3) continue;
      this.#streaks.delete(what);
      if (!this.own.has(what)) changes.push({ what, fault });
    }
    return changes;
  }
}
