import { toSnake } from "@orchestrator/shared/case.ts";
import { isoTime } from "@orchestrator/shared/clock.ts";
import type { QueueView } from "@orchestrator/shared/schemas/queue.ts";
import { oldestQueued } from "@orchestrator/shared/storage/next_due.ts";
import { readPauses } from "@orchestrator/shared/storage/read_pauses.ts";
import type { Holder } from "@orchestrator/shared/storage/take_lease.ts";
import type { ActiveRun } from "./active_runs.ts";
import type { RunContext } from "./run_context.ts";

export type QueueViewContext = Pick<
  RunContext,
  "storage" | "config" | "clock" | "instanceId" | "activeRuns" | "liveness" | "reaperCounters" | "stagingCounters"
>;

/** What `GET /queue` shows: counts that the single writer keeps, the runs in hand, and two look-ups by index. */
export const queueView = async (
  context: QueueViewContext,
  scheduler: { holder: Holder; startedAt: string },
): Promise<QueueView> => {
  const { storage, clock, instanceId, activeRuns, liveness, reaperCounters, stagingCounters } = context;
  const nowMs = clock.now();
  const [oldest, paused] = await Promise.all([oldestQueued(storage), readPauses(storage)]);
  return {
    time: isoTime(nowMs),
    scheduler: {
      instance_id: instanceId,
      holder: { ...scheduler.holder },
      epoch: storage.epoch,
      started_at: scheduler.startedAt,
    },
    paused,
    jobs: {
      ...storage.tally.jobs(),
      oldest_queued_s: oldest === null ? null : Math.max(0, Math.round((nowMs - Date.parse(oldest)) / 1000)),
    },
    tasks: { by_status: storage.tally.tasksByStatus(), by_stage: byStage(context) },
    running: activeRuns
      .all()
      .filter((run) => !run.isOver)
      .map(runningJob),
    finalizer_liveness: liveness.snapshot(),
    reaper: toSnake(reaperCounters),
    staging_runner: toSnake(stagingCounters),
  };
};

/** Every stage of the pipeline, and any other in which a task still stands. */
const byStage = ({ config, storage }: QueueViewContext): Record<string, number> => {
  const counts = Object.fromEntries(config.pipeline.stages.map(({ name }) => [name, 0]));
  for (const { stage, n } of storage.tally.tasks()) counts[stage] = (counts[stage] ?? 0) + n;
  return counts;
};

const runningJob = (run: ActiveRun): QueueView["running"][number] => {
  const { job, task, run: row } = run.claim;
  return {
    job_id: job.id,
    run_id: row.id,
    task_id: task.id,
    work_item_id: task.workItemId,
    agent: job.agent,
    stage: job.stage,
    phase: run.phase,
    started_at: row.startedAt,
    pid: run.worker?.kind === "process" ? run.worker.pid : null,
  };
};
