import type { StagingCounters } from "@orchestrator/shared/schemas/queue.ts";
import type { StagingAction, Verdict } from "@orchestrator/shared/schemas/staging_run.ts";

/** What this stager has run since it started, in memory only. `runs` is the sum of the verdicts when nothing is in flight. */
export class RunCounters {
  #counters: StagingCounters = { runs: 0, success: 0, failed: 0, tool_error: 0, deferred: 0 };

  started(): void {
    this.#counters.runs += 1;
  }

  ended(verdict: Verdict, action: StagingAction): void {
    this.#counters[verdict] += 1;
    if (action === "defer") this.#counters.deferred += 1;
  }

  read(): StagingCounters {
    return { ...this.#counters };
  }
}
