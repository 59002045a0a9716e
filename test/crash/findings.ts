import { isDeno } from "../helpers/runtime.ts";
import type { Snapshot } from "./database.ts";
import { type CrashReport, countViolations, percentiles } from "./figures.ts";
import { isMove, type Violation } from "./invariants.ts";
import type { CrashService } from "./service.ts";

const countIn = (counts: Record<string, number>, name: string): void => {
  counts[name] = (counts[name] ?? 0) + 1;
};

/** What the harness has seen so far. */
export class Findings {
  readonly violations: Violation[] = [];
  readonly readyMs: number[] = [];
  readonly claimMs: number[] = [];
  readonly runtimeMs: number[] = [];
  recoveries = 0;
  readonly #killsPerPoint: Record<string, number> = {};
  readonly #errors: Record<string, number> = {};
  readonly #beganMs = performance.now();
  readonly #onLine: ((text: string) => void) | undefined;
  #kills = 0;
  #stops = 0;

  /** @param onLine told each kill and each violation as it comes. */
  constructor(onLine?: (text: string) => void) {
    this.#onLine = onLine;
  }

  /** @param where for example `scheduler push.after`. */
  killed(where: string): void {
    this.#kills += 1;
    countIn(this.#killsPerPoint, where);
    this.#onLine?.(`${String(this.#kills).padStart(5)}  ${where}`);
  }

  /** A service that was told to stop has come to its end before the kill. */
  stopped(): void {
    this.#stops += 1;
  }

  /** The same violation counts once, however often it is seen. */
  violated(found: readonly Violation[]): void {
    for (const text of found) {
      if (this.violations.includes(text)) continue;
      this.violations.push(text);
      this.#onLine?.(`VIOLATION ${text}`);
    }
  }

  /** Takes what a service has logged as errors since the last time. */
  complained({ complaints }: CrashService): void {
    for (const { level, msg } of complaints.splice(0)) {
      if (level === "warn") continue;
      countIn(this.#errors, `${level}: ${msg}`);
      if (level === "fatal") this.violated([`a service gave up: ${msg}`]);
    }
  }

  report(seed: number, { tasks, runs, events }: Snapshot, helped: Record<string, number>): CrashReport {
    return {
      runtime: isDeno ? "deno" : "node",
      seed,
      kills: this.#kills,
      stops: this.#stops,
      killsPerPoint: this.#killsPerPoint,
      recoveries: this.recoveries,
      items: tasks.length,
      runs: runs.length,
      advances: events.filter(isMove).length,
      readyMs: percentiles(this.readyMs),
      firstClaimMs: percentiles(this.claimMs),
      runtimeMs: percentiles(this.runtimeMs),
      ...countViolations(this.violations),
      helped,
      errors: this.#errors,
      violations: this.violations,
      seconds: Math.round((performance.now() - this.#beganMs) / 1000),
    };
  }
}
