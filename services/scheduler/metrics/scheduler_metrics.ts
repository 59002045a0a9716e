import { addFigures } from "@orchestrator/shared/metrics/figures.ts";
import { processFigures } from "@orchestrator/shared/metrics/process_figures.ts";
import type { QueueView } from "@orchestrator/shared/schemas/queue.ts";
import { Registry } from "prom-client";
import type { RunContext } from "../run_context.ts";
import { QUEUE_FIGURES } from "./queue_figures.ts";
import { RunMetrics } from "./run_metrics.ts";

export interface SchedulerMetrics {
  /** The figures of `view`, and what this process has counted since it started, in the Prometheus text format. */
  text(view: QueueView): Promise<string>;
}

/**
 * Begins to count. Made before the first job is settled, so that what an earlier process left running, and this one takes
 * back, is counted as well. Counters begin at 0 with each process, as Prometheus expects them to; what says how things stand
 * (jobs, tasks, pauses) is as true after a restart as before it.
 */
export const createSchedulerMetrics = ({
  config,
  storage,
  activeRuns,
  liveness,
}: Pick<RunContext, "config" | "storage" | "activeRuns" | "liveness">): SchedulerMetrics => {
  const { pipeline } = config;
  const registry = new Registry();
  const show = addFigures(registry, [...QUEUE_FIGURES, ...processFigures()]);
  const runs = new RunMetrics(registry, { pipeline, activeRuns });
  storage.onCommitted((committed) => runs.committed(committed));
  return {
    text: (view) => {
      const finalizerAgesMs = liveness.jobIds().map((jobId) => liveness.see(jobId)?.ageMs ?? 0);
      show({ view, tasks: storage.tally.tasks(), finalizerAgesMs, pipeline, repos: Object.keys(config.repos) });
      return registry.metrics();
    },
  };
};
