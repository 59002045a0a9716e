import { agentFor } from "@orchestrator/shared/config/agent_for.ts";
import { FencedOffError } from "@orchestrator/shared/storage/check_epoch.ts";
import { type Claim, type ClaimRules, claimJob } from "@orchestrator/shared/storage/claim_job.ts";
import { nextDue } from "@orchestrator/shared/storage/next_due.ts";
import { shiftDueTimes } from "@orchestrator/shared/storage/shift_due_times.ts";
import { ActiveRun } from "./active_runs.ts";
import { DiskSpaceWatch } from "./disk_space_watch.ts";
import type { RunContext } from "./run_context.ts";
import { runLogPath } from "./run_log_path.ts";
import { tempFolderOf } from "./temp_folder.ts";
import { WallClockWatch } from "./wall_clock_watch.ts";

/** The longest the timer sleeps, in ms: `available_at` is wall-clock time, and somebody may set the clock. */
const LONGEST_TIMER_MS = 60_000;

/** How soon claiming is tried again after it could not be (disk full, database locked), in ms. */
const RETRY_MS = 5_000;

/**
 * Claims jobs and hands them to monitors. It does not poll: it is woken by the write that made a job due or a slot free, and
 * by one timer for the job that becomes due next.
 */
export class Dispatcher {
  readonly #context: RunContext;
  readonly #work: (run: ActiveRun) => Promise<void>;
  readonly #rules: ClaimRules;
  readonly #wallClock: WallClockWatch;
  readonly #disk: DiskSpaceWatch;
  #unsubscribe: (() => void)[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #claiming: Promise<void> | null = null;
  #wokenWhileClaiming = false;
  #running = false;

  /** @param work works a claimed job to its settle; it never rejects. */
  constructor(context: RunContext, work: (run: ActiveRun) => Promise<void>) {
    const { config } = context;
    this.#context = context;
    this.#work = work;
    this.#wallClock = new WallClockWatch(context.clock);
    this.#disk = new DiskSpaceWatch(context, {
      kept: [config.dataDir],
      remade: [config.workspacesDir, config.reposDir, tempFolderOf(config.dataDir)],
    });
    this.#rules = {
      limits: config.limits,
      environments: Object.fromEntries(Object.entries(config.repos).map(([name, repo]) => [name, repo.environment])),
      probes: () => context.faults.probes(),
      modelOf: (agent) => agentFor(config.agents, agent)?.model ?? null,
      logPathOf: (runId) => runLogPath(config.dataDir, runId),
    };
  }

  get running(): boolean {
    return this.#running;
  }

  start(): void {
    this.#running = true;
    const { storage, faults } = this.#context;
    this.#unsubscribe = [
      storage.onCommitted(({ queueMoved }) => {
        if (queueMoved) this.wake();
      }),
      // That is after the look to which the end of its run has led, which has set no timer for it.
      faults.onProbeAwaited(() => this.wake()),
    ];
    this.wake();
  }

  /** Stops claiming. Resolves when a claim that was under way has ended; runs go on. */
  async stop(): Promise<void> {
    this.#running = false;
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
    clearTimeout(this.#timer);
    await this.#claiming;
  }

  /** Looks for work now, or once more after the look that is under way. */
  wake(): void {
    if (!this.#running) return;
    if (this.#claiming) {
      this.#wokenWhileClaiming = true;
      return;
    }
    this.#claiming = this.#claimAll().finally(() => {
      this.#claiming = null;
      if (!this.#wokenWhileClaiming) return;
      this.#wokenWhileClaiming = false;
      this.wake();
    });
  }

  async #claimAll(): Promise<void> {
    const { log } = this.#context;
    clearTimeout(this.#timer);
    try {
      await this.#followWallClock();
      while (this.#running) {
        if (!(await this.#disk.hasSpace())) return this.#wakeIn(RETRY_MS);
        const { claim, lookedAt, lookedAtMs } = await this.#claim();
        if (claim === null) return await this.#sleepUntilDue(lookedAt, lookedAtMs);
        this.#begin(claim);
      }
    } catch (error) {
      // Told by the storage: there is nothing left to claim here.
      if (error instanceof FencedOffError) return;
      log.error({ err: error, retryInMs: RETRY_MS }, "no job could be claimed; trying again");
      this.#wakeIn(RETRY_MS);
    }
  }

  /** `available_at` is wall-clock time: with the clock set back, what waits would wait for so much longer. */
  async #followWallClock(): Promise<void> {
    const { storage, tenure, log } = this.#context;
    const backMs = this.#wallClock.setBackMs();
    if (backMs === 0) return;
    await tenure.confirm();
    const jobs = await storage.write((tx) => shiftDueTimes(tx, backMs));
    this.#wallClock.heeded(backMs);
    log.warn(
      { backMs: Math.round(backMs), jobs },
      "the wall clock was set back; what waits for its time is due as before",
    );
  }

  /** `lookedAt`: up to when a job had to be due to be claimed; `lookedAtMs`: and a probe, on the monotonic clock. */
  async #claim(): Promise<{ claim: Claim | null; lookedAt: string; lookedAtMs: number }> {
    const { storage, tenure, points, clock } = this.#context;
    await points.reach("claim.before");
    await tenure.confirm();
    const lookedAtMs = clock.monotonicMs();
    return storage.write(async (tx) => {
      const claim = await claimJob(tx, this.#rules);
      if (claim !== null) await points.reach("claim.before_commit", claim.job.id);
      return { claim, lookedAt: tx.now, lookedAtMs };
    });
  }

  /** From its claim on a job has a live launcher: nothing may be awaited before it stands among the active runs. */
  #begin(claim: Claim): void {
    const { activeRuns, clock, log } = this.#context;
    const run = new ActiveRun(claim, clock);
    activeRuns.add(run);
    const { job, task } = claim;
    log.info(
      { jobId: job.id, runId: claim.run.id, workItemId: task.workItemId, stage: job.stage, attempt: job.attempt },
      "claimed",
    );
    void this.#work(run);
  }

  /** @param lookedAt what became due after this, or after `lookedAtMs`, has not been looked at, be it past by now. */
  async #sleepUntilDue(lookedAt: string, lookedAtMs: number): Promise<void> {
    const { storage, clock, faults } = this.#context;
    const due = await nextDue(storage, lookedAt);
    const waits = [due === null ? null : Date.parse(due) - clock.now(), faults.nextProbeInMs(lookedAtMs)];
    const soonest = Math.min(...waits.filter((ms) => ms !== null));
    if (Number.isFinite(soonest)) this.#wakeIn(Math.max(soonest, 1));
  }

  #wakeIn(ms: number): void {
    clearTimeout(this.#timer);
    if (this.#running) this.#timer = setTimeout(() => this.wake(), Math.min(ms, LONGEST_TIMER_MS));
  }
}
