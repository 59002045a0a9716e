import { isoTime } from "@orchestrator/shared/clock.ts";
import { agentFor } from "@orchestrator/shared/config/agent_for.ts";
import { FINALIZER_EXPIRED, LOST } from "@orchestrator/shared/outcome_class.ts";
import { isStagingRunners } from "@orchestrator/shared/pipeline.ts";
import { endProcesses } from "@orchestrator/shared/process/end_processes.ts";
import { isAlive } from "@orchestrator/shared/process/proc_table.ts";
import { FencedOffError } from "@orchestrator/shared/storage/check_epoch.ts";
import { listRunning, type RunningJob } from "@orchestrator/shared/storage/list_running.ts";
import { mayRunAgain } from "@orchestrator/shared/storage/record_run_progress.ts";
import type { ActiveRun } from "./active_runs.ts";
import { recordNotedExit } from "./noted_exits.ts";
import { findOrphans } from "./orphans.ts";
import { decide, type JobView, type ReaperAction } from "./reaper_decision.ts";
import type { RunContext } from "./run_context.ts";
import type { Ended } from "./run_result.ts";
import { type Settlement, settleRun } from "./settle.ts";

/**
 * Looks at every running job from time to time and takes back those that nobody works on any more: nothing that is alive is
 * reaped, nothing that is dead stays `running`. What to do is decided in `reaper_decision.ts`; here it is done. A sweep costs
 * what is running, and writes nothing where there is nothing to do.
 */
export class Reaper {
  readonly #context: RunContext;
  /** Since when a job has been seen without anybody at work on it. */
  readonly #unownedSince = new Map<number, { runId: number; sinceMs: number }>();
  #missingBefore = new WeakSet<ActiveRun>();
  readonly #orphanSince = new Map<number, number>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #sweeping: Promise<void> = Promise.resolve();
  #stopped = false;

  constructor(context: RunContext) {
    this.#context = context;
  }

  start(): void {
    const { config, log } = this.#context;
    if (!config.finalizerLivenessEnabled) {
      log.warn(
        "ORCH_FINALIZER_LIVENESS_ENABLED=false: the reaper does not look at finalizer marks and may reap live finalizers",
      );
    }
    this.#schedule();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#sweeping;
  }

  /**
   * One look at every running job. Never rejects: an error is logged and counted and costs only the job or the step in which
   * it came, and the next sweep tries that again.
   */
  async sweep(): Promise<void> {
    const { storage, clock, log, reaperCounters: counters } = this.#context;
    const began = clock.monotonicMs();
    try {
      const running = await listRunning(storage);
      this.#forgetAllBut(running);
      for (const job of running) {
        await this.#step({ step: "judge", jobId: job.jobId, runId: job.runId }, () => this.#judge(job));
      }
      await this.#step({ step: "unwanted runs" }, () => this.#endUnwanted(running));
      await this.#step({ step: "leaked marks" }, () => this.#dropMarksWithoutJob(running));
      await this.#step({ step: "orphans" }, () => this.#endOrphans(running));
    } catch (error) {
      counters.errors += 1;
      log.error({ err: error }, "a reaper sweep broke off; the next one will look again");
    }
    counters.sweeps += 1;
    counters.lastSweepAt = isoTime(clock.now());
    counters.lastSweepMs = Math.round(clock.monotonicMs() - began);
  }

  /**
   * Does one part of a sweep, which must not hide the others.
   * @throws {FencedOffError} alone: what is seen from then on is another scheduler's to judge.
   */
  async #step(
    about: { step: string; jobId?: number; runId?: number },
    work: () => void | Promise<void>,
  ): Promise<void> {
    const { log, reaperCounters } = this.#context;
    try {
      await work();
    } catch (error) {
      if (error instanceof FencedOffError) throw error;
      reaperCounters.errors += 1;
      log.error({ err: error, ...about }, "a step of a reaper sweep failed; the next sweep will try it again");
    }
  }

  #schedule(): void {
    if (this.#stopped) return;
    this.#timer = setTimeout(() => {
      this.#sweeping = this.sweep().finally(() => this.#schedule());
    }, this.#context.config.reaperIntervalMs);
  }

  async #judge(job: RunningJob): Promise<void> {
    const { config } = this.#context;
    const active = this.#activeRun(job);
    const { action, dropLeakedMark } = decide(this.#see(job, active), {
      graceMs: config.reaperGraceMs,
      finalizerMaxMs: config.finalizerMaxMs,
      launchTimeoutMs: config.launchTimeoutMs,
      livenessEnabled: config.finalizerLivenessEnabled,
    });
    if (dropLeakedMark) this.#dropMark(job.jobId, "dropped a finalizer mark whose monitor has ended");
    await this.#act(job, active, action);
    // Only now: a job whose settle failed has had its grace, and is tried again in the next sweep.
    if (action.kind !== "wait") this.#unownedSince.delete(job.jobId);
  }

  #see(job: RunningJob, active: ActiveRun | undefined): JobView {
    const { liveness, config } = this.#context;
    const mark = liveness.see(job.jobId);
    const executing = active?.phase === "executing" ? active : undefined;
    // A stream is no agent's work, whichever agent its job names: only the environment's limits bound it.
    const agent = executing?.worker?.kind === "stream" ? null : agentFor(config.agents, job.agent);
    const view: Omit<JobView, "unownedMs"> = {
      mark: mark === null ? null : { ageMs: mark.ageMs, ownerLive: this.#isLive(job.jobId, mark.runId) },
      launcher: active?.phase === "launching" ? { ageMs: active.phaseAgeMs() } : null,
      monitor: executing
        ? {
            workerAlive: isWorkerAlive(executing),
            ageMs: executing.phaseAgeMs(),
            silentMs: executing.silentMs(),
            timeoutMs: agent?.timeoutMs ?? config.jobTimeoutMs,
            stallMs: agent?.stallTimeoutMs ?? config.stallTimeoutMs,
          }
        : null,
    };
    return { ...view, unownedMs: this.#unownedMs(job) };
  }

  /** How long the job has been without an owner, if it has none; begins to count at the first sight. */
  #unownedMs({ jobId, runId }: RunningJob): number | null {
    const nowMs = this.#context.clock.monotonicMs();
    const seen = this.#unownedSince.get(jobId);
    if (seen?.runId === runId) return nowMs - seen.sinceMs;
    this.#unownedSince.set(jobId, { runId, sinceMs: nowMs });
    return null;
  }

  async #act(job: RunningJob, active: ActiveRun | undefined, action: ReaperAction): Promise<void> {
    const { config, liveness, reaperCounters: counters, log } = this.#context;
    switch (action.kind) {
      case "leave":
      case "wait":
        return;
      case "skip_live_finalizer":
        counters.skippedLiveFinalizer += 1;
        return;
      case "end_launch": {
        const reason = `the launch took longer than ORCH_LAUNCH_TIMEOUT_MS (${config.launchTimeoutMs} ms)`;
        active?.end({ outcome: "tool_error", class: "launch_timeout", reason });
        return;
      }
      case "end_run": {
        const reason =
          action.as === "timed_out"
            ? `ran longer than its timeout (${Math.round((active?.phaseAgeMs() ?? 0) / 1000)} s)`
            : `no output for ${Math.round((active?.silentMs() ?? 0) / 1000)} s`;
        active?.end({ outcome: action.as, class: null, reason });
        return;
      }
      case "expire_finalizer": {
        const reason = `its finalizer was at work for longer than ORCH_FINALIZER_MAX_MS (${config.finalizerMaxMs} ms)`;
        const settlement = await this.#takeBack(job, "tool_error", FINALIZER_EXPIRED, reason);
        if (settlement.kind !== "settled") return;
        counters.finalizerExpired += 1;
        log.warn({ jobId: job.jobId, runId: job.runId, next: settlement.next, reason }, "ended a finalizer that hung");
        liveness.abort(job.jobId, job.runId, new Error(reason));
        this.#letGo(job, active);
        return;
      }
      case "reap": {
        const reason = `nobody was at work on it for ${config.reaperGraceMs} ms: no process, no monitor, no finalizer`;
        // An agent that was never started has failed at nothing: the answer to its claim was lost, or its monitor broke off
        // before. A run of the staging runner's has no process by which that could be told.
        const outcome = job.pidStarted === null && !isStagingRunners(job, config) ? "interrupted" : "failed";
        const settlement = await this.#takeBack(job, outcome, LOST, reason);
        if (settlement.kind !== "settled") return;
        log.warn({ jobId: job.jobId, runId: job.runId, next: settlement.next }, "reaped a job that nobody worked on");
        if (settlement.next === "again") counters.reapedRequeued += 1;
        else counters.reapedFailed += 1;
        this.#letGo(job, active);
        return;
      }
    }
  }

  /** Settles the run in its place: its own settle, should it still come, finds itself fenced off. */
  async #takeBack(
    job: RunningJob,
    outcome: Ended["outcome"],
    outcomeClass: typeof LOST | typeof FINALIZER_EXPIRED,
    reason: string,
  ): Promise<Settlement> {
    const runsAgentAgain = mayRunAgain(await recordNotedExit(this.#context, job));
    const ending: Ended = { kind: "ended", outcome, class: outcomeClass, reason, runsAgentAgain };
    return settleRun(this.#context, job.runId, ending, outcomeClass === LOST ? "reaper" : outcomeClass);
  }

  /** Forgets a run that was settled in its place. Its monitor, if there is one, ends in its own time. */
  #letGo(job: RunningJob, active: ActiveRun | undefined): void {
    const { activeRuns, liveness } = this.#context;
    liveness.clear(job.jobId, job.runId);
    if (active) activeRuns.remove(active);
  }

  /** Whether the monitor of that run stands: asked of the registry as it is now, not of a row read before. */
  #isLive(jobId: number, runId: number): boolean {
    return this.#context.activeRuns.get(jobId)?.claim.run.id === runId;
  }

  /**
   * Ends the runs under way whose job is no longer theirs: somebody cancelled it, or took it over, and could not tell them. A
   * run claimed after the rows were read is missing among them as well, so it has to be missing twice. One that finalizes has
   * its time all the same: it keeps what its agent left, and can publish nothing any more.
   */
  #endUnwanted(running: readonly RunningJob[]): void {
    const { activeRuns, config, liveness, log } = this.#context;
    const wanted = new Set(running.map((job) => job.runId));
    const missing = activeRuns.all().filter((run) => !run.isOver && !wanted.has(run.claim.run.id));
    for (const run of missing.filter((run) => this.#missingBefore.has(run))) {
      const { job, run: row } = run.claim;
      const mark = liveness.see(job.id);
      if (run.phase === "finalizing" && mark?.runId === row.id && mark.ageMs <= config.finalizerMaxMs) continue;
      const reason = "its job is no longer this run's";
      log.warn({ jobId: job.id, runId: row.id, phase: run.phase }, "ending a run whose job is no longer its own");
      if (run.phase === "finalizing") liveness.abort(job.id, row.id, new Error(reason));
      else run.end({ outcome: "cancelled", class: null, reason });
    }
    this.#missingBefore = new WeakSet(missing);
  }

  #activeRun({ jobId, runId }: RunningJob): ActiveRun | undefined {
    const active = this.#context.activeRuns.get(jobId);
    return active?.claim.run.id === runId ? active : undefined;
  }

  #forgetAllBut(running: readonly RunningJob[]): void {
    const jobs = new Set(running.map((job) => job.jobId));
    for (const jobId of this.#unownedSince.keys()) if (!jobs.has(jobId)) this.#unownedSince.delete(jobId);
  }

  /** A mark on a job that is not running, and that no monitor holds, guards nothing. */
  #dropMarksWithoutJob(running: readonly RunningJob[]): void {
    const { liveness, activeRuns } = this.#context;
    const jobs = new Set(running.map((job) => job.jobId));
    for (const jobId of liveness.jobIds()) {
      if (jobs.has(jobId) || activeRuns.get(jobId)) continue;
      this.#dropMark(jobId, "dropped a finalizer mark on a job that is not running");
    }
  }

  #dropMark(jobId: number, message: string): void {
    const { liveness, reaperCounters, log } = this.#context;
    const mark = liveness.see(jobId);
    if (mark) liveness.clear(jobId, mark.runId);
    reaperCounters.leakedMarks += 1;
    log.warn({ jobId, runId: mark?.runId }, message);
  }

  /** Ends processes of runs that were settled without them. */
  async #endOrphans(running: readonly RunningJob[]): Promise<void> {
    const { instanceId, config, clock, log, reaperCounters } = this.#context;
    for (const runId of this.#dueOrphans(running)) {
      await this.#step({ step: "orphan", runId }, async () => {
        log.warn({ runId }, "ending processes of a run whose job is no longer running");
        const { ended } = await endProcesses({ marks: { instanceId, runId }, graceMs: config.killGraceMs, clock });
        reaperCounters.orphansKilled += ended;
      });
    }
  }

  /** An agent's processes are due at once, a staging step's when its stager has had the grace to tear it down by itself. */
  #dueOrphans(running: readonly RunningJob[]): number[] {
    const { instanceId, config, clock, activeRuns } = this.#context;
    const wanted = new Set([...running.map((job) => job.runId), ...activeRuns.all().map((run) => run.claim.run.id)]);
    const nowMs = clock.monotonicMs();
    const orphans = findOrphans(instanceId, wanted);
    const runIds = new Set(orphans.map(({ runId }) => runId));
    for (const runId of this.#orphanSince.keys()) if (!runIds.has(runId)) this.#orphanSince.delete(runId);
    for (const runId of runIds) if (!this.#orphanSince.has(runId)) this.#orphanSince.set(runId, nowMs);
    const isDue = ({ runId, isAgents }: (typeof orphans)[number]): boolean =>
      isAgents || nowMs - this.#orphanSince.get(runId)! >= config.reaperGraceMs;
    return orphans.filter(isDue).map(({ runId }) => runId);
  }
}

const isWorkerAlive = ({ worker }: ActiveRun): boolean =>
  worker !== null && (worker.kind === "stream" || isAlive(worker.pid, worker.started));
