import type { CamelKeys } from "@orchestrator/shared/case.ts";
import type { QueueView } from "@orchestrator/shared/schemas/queue.ts";

/** What the reaper has seen and done since this process started. */
export type ReaperCounters = CamelKeys<QueueView["reaper"]>;

export const createReaperCounters = (): ReaperCounters => ({
  sweeps: 0,
  skippedLiveFinalizer: 0,
  finalizerExpired: 0,
  reapedRequeued: 0,
  reapedFailed: 0,
  orphansKilled: 0,
  leakedMarks: 0,
  settleSuperseded: 0,
  errors: 0,
  lastSweepAt: null,
  lastSweepMs: null,
});

/** Staging results as this scheduler received them, of all stagers together. */
export type StagingCounters = CamelKeys<QueueView["staging_runner"]>;

export const createStagingCounters = (): StagingCounters => ({
  runs: 0,
  success: 0,
  failed: 0,
  toolError: 0,
  deferred: 0,
});
