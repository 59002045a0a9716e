import { addFigures, type Figure } from "@orchestrator/shared/metrics/figures.ts";
import { processFigures } from "@orchestrator/shared/metrics/process_figures.ts";
import type { StagingCounters } from "@orchestrator/shared/schemas/queue.ts";
import { Registry } from "prom-client";

/** What the JSON of `GET /queue` shows as well. */
export interface StagerSeen {
  staging_runner: StagingCounters;
  active: readonly unknown[];
}

const STAGER_FIGURES: readonly Figure<StagerSeen>[] = [
  {
    type: "counter",
    name: "stager_runs_total",
    help: "Staging runs that this stager has begun.",
    of: ({ staging_runner }) => staging_runner.runs,
  },
  {
    type: "counter",
    name: "stager_outcomes_total",
    help: "What this stager's runs came to; the deferred are tool errors that are tried again.",
    label: "outcome",
    of: ({ staging_runner: { runs: _, ...outcomes } }) => outcomes,
  },
  {
    type: "gauge",
    name: "stager_active_runs",
    help: "Staging runs at work.",
    of: ({ active }) => active.length,
  },
];

/** @returns what writes the figures of this moment in the Prometheus text format. */
export const createStagerMetrics = (): ((seen: StagerSeen) => Promise<string>) => {
  const registry = new Registry();
  const show = addFigures(registry, [...STAGER_FIGURES, ...processFigures()]);
  return (seen) => {
    show(seen);
    return registry.metrics();
  };
};
