import { setTimeout as sleep } from "node:timers/promises";
import type { RunContext } from "./run_context.ts";
import { UnwrittenError } from "./write_surely.ts";

/**
 * How long a finalizer may go on trying to write once the drain time is over, in ms. Enough for a program that holds the
 * database's lock for a moment, and for a server that starts anew. A full disk takes a person, who by then ends this process by
 * a second signal, or SIGKILL: what was waited for is no better off, and a push that was under way is cut short.
 */
const UNWRITTEN_MS = 5_000;
const LOOK_MS = 500;

export interface EndRunsOptions {
  /** How long running agents are waited for before they are ended. */
  drainMs: number;
  /** Aborted once another scheduler works on these jobs: what still runs here has no time to be given. */
  fencedOff: AbortSignal;
  /** Called when a run is left to the next start, since the database cannot be written. */
  onUnwritable: () => void;
}

/**
 * Gives running agents the drain time, then ends them and waits until every run has been settled. Left as they are, to be taken
 * up by the next start, are those whose exit or outcome the database does not take: the note of an agent's exit 0 is removed
 * only after that is on record, and what was collected has its ref, so that no agent is run again for it.
 */
export const endRuns = async (
  {
    activeRuns,
    liveness,
    storage,
    clock,
    log,
  }: Pick<RunContext, "activeRuns" | "liveness" | "storage" | "clock" | "log">,
  { drainMs, fencedOff, onUnwritable }: EndRunsOptions,
): Promise<void> => {
  let committedMs = Number.NEGATIVE_INFINITY;
  const unsubscribe = storage.onCommitted(() => {
    committedMs = clock.monotonicMs();
  });
  const interrupt = { outcome: "interrupted", class: "shutdown", reason: "the scheduler was stopped" } as const;
  for (const run of activeRuns.all()) if (run.phase === "launching") run.end(interrupt);
  const drained = sleep(drainMs, undefined, { ref: false, signal: fencedOff }).catch(() => undefined);
  await Promise.race([activeRuns.whenIdle(), drained]);
  const running = activeRuns.all();
  if (running.length > 0)
    log.info({ runs: running.map((run) => run.claim.run.id) }, "ending runs that were not done in the drain time");
  for (const run of running) run.end(interrupt);

  const looking = setInterval(() => {
    // The next scheduler is there already, and this process has a deadline.
    if (fencedOff.aborted) return;
    // Where others' writes go through, those that wait are only in the queue: a server takes them one after the other.
    if (clock.monotonicMs() - committedMs < UNWRITTEN_MS) return;
    const runs = liveness.abortWriting(UNWRITTEN_MS, new UnwrittenError());
    if (runs.length === 0) return;
    log.error({ runs }, "the database cannot be written; runs are left as they are, for the next start to go on with");
    onUnwritable();
  }, LOOK_MS);
  await activeRuns.whenIdle().finally(() => {
    clearInterval(looking);
    unsubscribe();
  });
};
