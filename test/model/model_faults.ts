import { STAGING_STAGE } from "@orchestrator/shared/domain.ts";
import type { RunEnding } from "../../services/scheduler/run_result.ts";
import type { FakeClock } from "../helpers/fake_clock.ts";

export interface Place {
  agent: string;
  repo: string;
  stage: string;
}

/** A run that met a tool error (`fault`) or did not. */
interface PastEnd {
  scopes: readonly string[];
  taskId: number;
  fault: string | null;
  /** It was within something that was paused for it. */
  explained: boolean;
}

const scopesOf = ({ agent, repo, stage }: Place): string[] => [
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
 * The same class of tool error on jobs of three different tasks in a row of one agent, one repository, or staging pauses it,
 * of several at once the one that the class points to; one probe goes after 1 min, 2 min, … 30 min.
 */
export class ModelFaults {
  readonly #clock: FakeClock;
  /** Every end that says something about what was not paused then. */
  readonly #ends: PastEnd[] = [];
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
    for (const what of scopesOf(place)) if (open.has(what)) this.own.get(what)!.probe = runId;
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
    const fault = outcome === "tool_error" && endedAs !== "stager_unreachable" ? endedAs : null;
    const foundNothing =
      ["interrupted", "cancelled"].includes(outcome) ||
      (outcome === "superseded" && endedAs === null) ||
      ["lost", "stager_unreachable"].includes(endedAs!);
    const scopes = scopesOf(place);
    const goesOn: string[] = [];
    for (const what of scopes) {
      const own = this.own.get(what);
      if (own?.probe !== runId) continue;
      if (foundNothing || fault !== null) this.await(what, own.failures + (foundNothing ? 0 : 1));
      else {
        this.own.delete(what);
        goesOn.push(what);
      }
    }
    if (foundNothing) return [];
    const isWithinPause = scopes.some((what) => this.own.has(what));
    if (fault !== null && isWithinPause) return [];
    this.#ends.push({ scopes, taskId, fault, explained: false });
    if (fault === null) return goesOn.map((what) => ({ what, fault: null }));
    const hit = scopes.filter((what) => this.#tasksInARow(what, fault) >= 3);
    if (hit.length === 0) return [];
    const least = ["staging", `repo:${place.repo}`, `agent:${place.agent}`].find((what) => hit.includes(what))!;
    const what = hit.includes(blamed(fault, place)) ? blamed(fault, place) : least;
    for (const end of this.#ends) if (end.scopes.includes(what)) end.explained = true;
    return [{ what, fault }];
  }

  /** How many tasks, back from the latest end, have met just this; the last time that each did, for no known reason. */
  #tasksInARow(what: string, fault: string): number {
    const within = this.#ends.filter(({ scopes }) => scopes.includes(what));
    const row = within.slice(within.findLastIndex((end) => end.fault !== fault) + 1);
    const lastOfTask = new Map(row.map((end) => [end.taskId, end]));
    return [...lastOfTask.values()].filter(({ explained }) => !explained).length;
  }
}
