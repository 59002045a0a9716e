import type { Clock } from "@orchestrator/shared/clock.ts";
import type { Config } from "@orchestrator/shared/config/config.ts";
import type { Git } from "@orchestrator/shared/git/run_git.ts";
import type { Log } from "@orchestrator/shared/log.ts";
import type { Points } from "@orchestrator/shared/points.ts";
import type { JobHold } from "@orchestrator/shared/storage/end_job.ts";
import { isRunOfTask } from "@orchestrator/shared/storage/is_run_of_task.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";
import type { ActiveRun, ActiveRuns } from "./active_runs.ts";
import type { ReaperCounters, StagingCounters } from "./counters.ts";
import type { FinalizerLiveness } from "./finalizer_liveness.ts";
import type { Mirror, Mirrors } from "./git/mirror.ts";
import type { Tenure } from "./lease_keeper.ts";
import type { RunLogs } from "./run_logs.ts";
import type { SystemicFaults } from "./systemic_faults.ts";

/** What launcher, monitor, finalizer and reaper work with. Made once, in `scheduler.ts`. */
export interface RunContext {
  config: Config;
  storage: Storage;
  tenure: Tenure;
  instanceId: string;
  clock: Clock;
  log: Log;
  points: Points;
  git: Git;
  mirrors: Mirrors;
  activeRuns: ActiveRuns;
  runLogs: RunLogs;
  liveness: FinalizerLiveness;
  faults: SystemicFaults;
  reaperCounters: ReaperCounters;
  stagingCounters: StagingCounters;
  /** From 0 to 1. */
  random: () => number;
  /** Aborted when the process is about to stop: what the next start does as well need not be waited for. */
  signal: AbortSignal;
}

/**
 * Asked just before what cannot be taken back, a start, a push or a ref update.
 * @throws {FencedOffError} where another scheduler has taken over.
 */
export type Fence = () => Promise<void>;

/** The fence of this scheduler's epoch. */
export const fenceOf =
  ({ tenure, storage }: Pick<RunContext, "tenure" | "storage">): Fence =>
  async () => {
    await tenure.confirm();
    await storage.checkFence();
  };

/**
 * Writes in a mirror, alone and under the fence: only the scheduler of the current epoch moves refs. Waiting for the mirror is
 * told by `onWait`, since it is nobody's work.
 * @param work is given the fence, to ask it again where a ref moves after work that takes its time.
 */
export const writingIn = <T>(
  context: Pick<RunContext, "tenure" | "storage">,
  mirror: Mirror,
  work: (fence: Fence) => Promise<T>,
  waiting: { signal: AbortSignal; onWait: (waiting: boolean) => void },
): Promise<T> => {
  const fence = fenceOf(context);
  const fenced = async (): Promise<T> => {
    await fence();
    return work(fence);
  };
  return mirror.exclusive(fenced, { ...waiting, fence });
};

/** The three ids by which the tables hold a run to its job and task. */
export const holdOf = (run: ActiveRun): JobHold => ({
  jobId: run.claim.job.id,
  taskId: run.claim.task.id,
  runId: run.claim.run.id,
});

/** The commit is this run's, or an earlier one's of the same task: which runs those are, the database knows. */
export const ownRunOf =
  (storage: Storage, taskId: number) =>
  (runId: number): Promise<boolean> =>
    isRunOfTask(storage, runId, taskId);
