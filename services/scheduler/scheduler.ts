import { hostname } from "node:os";
import { type Clock, isoTime } from "@orchestrator/shared/clock.ts";
import type { Config } from "@orchestrator/shared/config/config.ts";
import { LONGEST_DEFER_MS } from "@orchestrator/shared/defer.ts";
import { createGit } from "@orchestrator/shared/git/run_git.ts";
import type { Log } from "@orchestrator/shared/log.ts";
import type { Points } from "@orchestrator/shared/points.ts";
import { type Part, stopInTurn } from "@orchestrator/shared/stop_in_turn.ts";
import { capDueTimes } from "@orchestrator/shared/storage/cap_due_times.ts";
import { isFileUrl } from "@orchestrator/shared/storage/connection.ts";
import { openStorage } from "@orchestrator/shared/storage/open.ts";
import { readPauses } from "@orchestrator/shared/storage/read_pauses.ts";
import { type Holder, takeLease } from "@orchestrator/shared/storage/take_lease.ts";
import { unusableDatabase } from "@orchestrator/shared/storage/unusable_database.ts";
import { ActiveRuns } from "./active_runs.ts";
import { startClearingUp } from "./clear_up.ts";
import { createReaperCounters, createStagingCounters } from "./counters.ts";
import { Dispatcher } from "./dispatcher.ts";
import { endRuns } from "./end_runs.ts";
import { removeExitNotes } from "./exit_notes.ts";
import { FinalizerLiveness } from "./finalizer_liveness.ts";
import { createMirrors } from "./git/mirror.ts";
import { answerLimitMs, challenge, LeaseKeeper } from "./lease_keeper.ts";
import { endLeftovers } from "./leftovers.ts";
import { createLocalApi } from "./local_api.ts";
import { LockKeeper } from "./lock_keeper.ts";
import { LogRetention } from "./log_retention.ts";
import { createSchedulerMetrics } from "./metrics/scheduler_metrics.ts";
import { monitorRun } from "./monitor.ts";
import { recordNotedExits } from "./noted_exits.ts";
import { createNotifier } from "./notifier.ts";
import { readiness } from "./readiness.ts";
import { Reaper } from "./reaper.ts";
import { requeueRunningJobs } from "./requeue_running_jobs.ts";
import type { RunContext } from "./run_context.ts";
import { RunLogs } from "./run_logs.ts";
import type { SchedulerApi } from "./scheduler_api.ts";
import { takeSchedulerLock } from "./scheduler_lock.ts";
import { checkSurroundings } from "./surroundings.ts";
import { SystemicFaults } from "./systemic_faults.ts";
import { clearTempFolder } from "./temp_folder.ts";

export interface SchedulerOptions {
  config: Config;
  clock: Clock;
  log: Log;
  points: Points;
  /** From 0 to 1: the jitter of delays. */
  random: () => number;
  /** What keeps other schedulers off; by default what the database's URL asks for. */
  guardedBy?: "kernel" | "lease";
  /** How long a write waits for a database that another program has locked, in ms, before it says so; default 30 s. */
  busyLimitMs?: number;
  /** Aborted when the process is to stop: ends the waiting of a scheduler in standby, and what the next start does as well. */
  signal: AbortSignal;
  /**
   * Called once, when another scheduler has taken over: this process must end. Its agents, and what its finalizers have git do,
   * are being ended by then.
   */
  onFencedOff: (error: Error) => void;
}

export interface Scheduler {
  api: SchedulerApi;
  /** What the parts share; tests look into it. */
  context: RunContext;
  reaper: Reaper;
  /** Stops claiming. What has been claimed goes on. */
  stopClaiming(): Promise<void>;
  /**
   * Stops in the reverse order of the start. Resolves when nothing of it runs any more.
   * @param drainMs how long running agents are waited for before they are ended; default `ORCH_DRAIN_MS`. Once another
   * scheduler has taken over they are given no time.
   * @throws {StopError} where a part could not be stopped; all the others have been.
   */
  stop(drainMs?: number): Promise<void>;
}

/**
 * Starts the scheduler. The order is the contract: lock, epoch, what an earlier process left is ended, its jobs are
 * requeued, and only then may the reaper look at an empty finalizer registry and the dispatcher claim.
 * @throws what a part could not be started for; those that had been are stopped by then.
 */
export const startScheduler = async (options: SchedulerOptions): Promise<Scheduler> => {
  const started: Part[] = [];
  try {
    return await startParts(options, started);
  } catch (error) {
    // Each failure of the stop is told; what counts is why there was no start.
    await stopInTurn(started.reverse(), options.log).catch(() => undefined);
    throw error;
  }
};

/** @param started takes up what stops each part, as it starts. */
const startParts = async (options: SchedulerOptions, started: Part[]): Promise<Scheduler> => {
  const { config, clock, log, points } = options;
  // Set by the stop; where the start fails, no time is given to anything.
  let drainMs = 0;
  let drainedAtMs = 0;
  const activeRuns = new ActiveRuns();
  const liveness = new FinalizerLiveness(clock);
  const fencedOff = new AbortController();
  const onFencedOff = (error: Error): void => {
    // What is in hand here is another scheduler's already: not even a push that is under way may land any more.
    for (const run of activeRuns.all()) run.end({ outcome: "interrupted", class: "shutdown", reason: error.message });
    liveness.abortAll(error);
    fencedOff.abort(error);
    options.onFencedOff(error);
  };
  const hurry = new AbortController();
  const onUnwritable = (): void => hurry.abort();
  const holder: Holder = { host: hostname(), pid: process.pid, since: isoTime(clock.now()) };
  await checkSurroundings(config);

  // A kernel lock where there is a file for it; a database on a server is guarded by its lease row.
  const guardedBy = options.guardedBy ?? (isFileUrl(config.dbUrl) ? "kernel" : "lease");
  const lock = guardedBy === "kernel" ? await takeSchedulerLock(config.dbUrl, options) : null;
  started.push(["the lock", () => lock?.release()]);
  await points.reach("start.locked");
  const { leaseTtlMs: ttlMs } = config;
  const busy = options.busyLimitMs === undefined ? {} : { busyLimitMs: options.busyLimitMs };
  const { storage, instanceId } = await openStorage(
    {
      url: config.dbUrl,
      authToken: config.dbAuthToken,
      synchronous: config.dbSynchronous,
      clock,
      answerLimitMs: answerLimitMs(ttlMs),
      hurry: hurry.signal,
      onFencedOff,
      ...busy,
    },
    (writer) =>
      lock
        ? takeLease(writer, holder, isoTime(clock.now() + ttlMs))
        : challenge(writer, { ...options, holder, ttlMs, standby: config.standby }),
  ).catch((error: unknown) => {
    throw unusableDatabase(error, config.dbUrl);
  });
  started.push(["the database", () => storage.close()]);
  const tenure = lock ? new LockKeeper({ lock, storage, log }) : new LeaseKeeper({ ...options, storage, ttlMs });
  started.push(["the lease", () => tenure.stop()]);
  const runLogs: RunLogs = new RunLogs((bytes) => retention.grown(bytes));
  const retention = new LogRetention({
    dataDir: config.dataDir,
    keepBytes: config.logKeepBytes,
    isOpen: (runId) => runLogs.get(runId) !== undefined,
    log,
  });
  started.push(["the retention of logs", () => retention.idle()]);
  const git = createGit({ instanceId, parentEnv: config.parentEnv, networkConfig: config.gitNetworkConfig });
  const context: RunContext = {
    ...options,
    storage,
    tenure,
    instanceId,
    git,
    mirrors: createMirrors({ git, reposDir: config.reposDir, repos: config.repos }),
    activeRuns,
    runLogs,
    liveness,
    faults: new SystemicFaults({ storage, clock, log }),
    reaperCounters: createReaperCounters(),
    stagingCounters: createStagingCounters(),
  };
  const metrics = createSchedulerMetrics(context);
  const notifier = createNotifier(context);
  const reaper = new Reaper(context);
  const dispatcher = new Dispatcher(context, (run) => monitorRun(context, run));

  await clearTempFolder(config.dataDir);
  // Before the jobs that an earlier scheduler left are settled: some of them need a person now.
  notifier?.start();
  const notifierMs = (): number => (fencedOff.signal.aborted ? 0 : Math.max(0, drainedAtMs - clock.monotonicMs()));
  started.push(["the notifier", () => notifier?.stop(notifierMs())]);
  // What the last runs say about a systemic fault may be a pause, of which people are to be told.
  started.push(["the watch for systemic faults", () => context.faults.idle()]);
  await endLeftovers(context);
  await points.reach("start.leftovers_ended");
  await recordNotedExits(context);
  const requeued = await requeueRunningJobs(context);
  if (requeued > 0) log.warn({ requeued }, "requeued the jobs that an earlier scheduler left running");
  // No delay is longer than a deferral's: what waits longer was queued by a clock that is right again.
  const latest = isoTime(clock.now() + LONGEST_DEFER_MS);
  const capped = await storage.write((tx) => capDueTimes(tx, latest));
  if (capped > 0)
    log.warn({ jobs: capped, latest }, "the wall clock was ahead when jobs were queued; they are due sooner");
  log.info({ epoch: storage.epoch, instanceId }, "took the database over");
  await removeExitNotes(config.dataDir);
  await points.reach("start.requeued");
  const clearing = await startClearingUp(context);
  started.push(["the clearing up of workspaces", () => clearing.stop()]);
  context.faults.restore(await readPauses(storage));
  reaper.start();
  started.push(["the reaper", () => reaper.stop()]);
  await points.reach("start.reaper");
  started.push(["the runs", () => endRuns(context, { drainMs, fencedOff: fencedOff.signal, onUnwritable })]);
  dispatcher.start();
  started.push(["the dispatcher", () => dispatcher.stop()]);
  retention.start();
  await points.reach("start.dispatcher");

  return {
    api: createLocalApi(context, { holder, metrics, readiness: () => readiness(context, dispatcher) }),
    context,
    reaper,
    stopClaiming: () => dispatcher.stop(),
    stop: async (ms = config.drainMs) => {
      drainMs = ms;
      drainedAtMs = clock.monotonicMs() + ms;
      await stopInTurn([...started].reverse(), log);
    },
  };
};
