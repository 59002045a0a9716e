import { DONE_STAGE, TASK_STATUSES } from "@orchestrator/shared/domain.ts";
import type { Figure } from "@orchestrator/shared/metrics/figures.ts";
import type { Pipeline } from "@orchestrator/shared/pipeline.ts";
import { type QueueView, RUN_PHASES } from "@orchestrator/shared/schemas/queue.ts";
import type { TaskPlace } from "@orchestrator/shared/storage/tally.ts";

/** What the figures are read from. */
export interface QueueSeen {
  /** The very view that the JSON shows. */
  view: QueueView;
  /** Every (stage, status) that has a task. */
  tasks: readonly (TaskPlace & { n: number })[];
  /** How long each finalizer has been at work, in ms, its waits for locks not counted. */
  finalizerAgesMs: readonly number[];
  pipeline: Pipeline;
  /** Names of the configured repositories. */
  repos: readonly string[];
}

/** The figures of `GET /queue` by the names under which Prometheus knows them. */
export const QUEUE_FIGURES: readonly Figure<QueueSeen>[] = [
  {
    type: "gauge",
    name: "orchestrator_jobs",
    help: "Jobs, by status.",
    label: "status",
    of: ({ view: { jobs } }) => {
      const { oldest_queued_s: _, ...counts } = jobs;
      return counts;
    },
  },
  {
    type: "gauge",
    name: "orchestrator_jobs_oldest_queued_seconds",
    help: "Age of the job that has been queued longest; 0 where none is queued.",
    of: ({ view }) => view.jobs.oldest_queued_s ?? 0,
  },
  {
    type: "gauge",
    name: "orchestrator_tasks",
    help: "Tasks, by stage and status.",
    labels: ["stage", "status"],
    of: (seen) => [...noTasks(seen), ...seen.tasks.map(({ n, ...labels }) => ({ labels, value: n }))],
  },
  {
    type: "gauge",
    name: "orchestrator_running_jobs",
    help: "Jobs in the hands of this scheduler, by what it does with them.",
    label: "phase",
    of: ({ view }) =>
      Object.fromEntries(RUN_PHASES.map((phase) => [phase, view.running.filter((run) => run.phase === phase).length])),
  },
  {
    type: "gauge",
    name: "orchestrator_finalizers",
    help: "Finalizers at work.",
    of: ({ finalizerAgesMs }) => finalizerAgesMs.length,
  },
  {
    type: "gauge",
    name: "orchestrator_finalizer_oldest_seconds",
    help: "How long the finalizer that began first has been at work, its waits for locks not counted; 0 where there is none.",
    of: ({ finalizerAgesMs }) => Math.max(0, ...finalizerAgesMs) / 1000,
  },
  {
    type: "counter",
    name: "orchestrator_reaper_sweeps_total",
    help: "Sweeps of the reaper.",
    of: ({ view }) => view.reaper.sweeps,
  },
  {
    type: "counter",
    name: "orchestrator_reaper_errors_total",
    help: "Sweeps of the reaper that failed.",
    of: ({ view }) => view.reaper.errors,
  },
  {
    type: "counter",
    name: "orchestrator_reaper_actions_total",
    help: "What the reaper found and did.",
    label: "action",
    of: ({ view: { reaper } }) => ({
      skipped_live_finalizer: reaper.skipped_live_finalizer,
      finalizer_expired: reaper.finalizer_expired,
      reaped_requeued: reaper.reaped_requeued,
      reaped_failed: reaper.reaped_failed,
      orphans_killed: reaper.orphans_killed,
      leaked_marks: reaper.leaked_marks,
    }),
  },
  {
    type: "gauge",
    name: "orchestrator_reaper_last_sweep_timestamp_seconds",
    help: "When the reaper's last sweep ended, since the epoch; 0 before the first.",
    of: ({ view }) => (view.reaper.last_sweep_at === null ? 0 : Date.parse(view.reaper.last_sweep_at) / 1000),
  },
  {
    type: "gauge",
    name: "orchestrator_reaper_last_sweep_duration_seconds",
    help: "How long the reaper's last sweep took.",
    of: ({ view }) => (view.reaper.last_sweep_ms ?? 0) / 1000,
  },
  {
    type: "counter",
    name: "orchestrator_settle_superseded_total",
    help: "Settles that changed nothing, since their job was no longer their run's.",
    of: ({ view }) => view.reaper.settle_superseded,
  },
  {
    type: "gauge",
    name: "orchestrator_paused",
    help: "1 where claiming is paused: all, staging, agent:<name> or repo:<name>.",
    label: "what",
    of: (seen) => ({ ...nothingPaused(seen), ...Object.fromEntries(seen.view.paused.map(({ what }) => [what, 1])) }),
  },
  {
    type: "gauge",
    name: "orchestrator_scheduler_epoch",
    help: "How often a scheduler has taken this database.",
    of: ({ view }) => view.scheduler.epoch,
  },
  {
    type: "counter",
    name: "staging_runner_runs_total",
    help: "Staging runs that stagers have begun for this scheduler.",
    of: ({ view }) => view.staging_runner.runs,
  },
  {
    type: "counter",
    name: "staging_runner_outcomes_total",
    help: "What staging runs came to; the deferred are tool errors that are tried again.",
    label: "outcome",
    of: ({ view }) => {
      const { runs: _, ...outcomes } = view.staging_runner;
      return outcomes;
    },
  },
];

// A series that is there before its first case makes an alert on it work, and a graph begin at 0.

const noTasks = ({ pipeline }: QueueSeen) =>
  [...pipeline.stages.map(({ name }) => name), DONE_STAGE].flatMap((stage) =>
    TASK_STATUSES.map((status) => ({ labels: { stage, status }, value: 0 })),
  );

const nothingPaused = ({ pipeline, repos }: QueueSeen): Record<string, number> => {
  const agents = pipeline.stages.map(({ agent }) => `agent:${agent}`);
  const places = ["all", "staging", ...agents, ...repos.map((repo) => `repo:${repo}`)];
  return Object.fromEntries(places.map((what) => [what, 0]));
};
