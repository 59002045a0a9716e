import { isoTime } from "@orchestrator/shared/clock.ts";
import { createLog } from "@orchestrator/shared/log.ts";
import type { Points } from "@orchestrator/shared/points.ts";
import type { QueueView } from "@orchestrator/shared/schemas/queue.ts";
import { type ClaimRules, claimJob } from "@orchestrator/shared/storage/claim_job.ts";
import type { Committed } from "@orchestrator/shared/storage/committed.ts";
import { openStorage } from "@orchestrator/shared/storage/open.ts";
import { probeWrite } from "@orchestrator/shared/storage/probe_write.ts";
import { readPauses } from "@orchestrator/shared/storage/read_pauses.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";
import { takeLease } from "@orchestrator/shared/storage/take_lease.ts";
import { vi } from "vitest";
import { ActiveRuns } from "../../services/scheduler/active_runs.ts";
import { createReaperCounters, createStagingCounters } from "../../services/scheduler/counters.ts";
import { FinalizerLiveness } from "../../services/scheduler/finalizer_liveness.ts";
import { createLocalApi } from "../../services/scheduler/local_api.ts";
import { Reaper } from "../../services/scheduler/reaper.ts";
import { requeueRunningJobs } from "../../services/scheduler/requeue_running_jobs.ts";
import { fenceOf, type RunContext } from "../../services/scheduler/run_context.ts";
import type { RunResult } from "../../services/scheduler/run_result.ts";
import type { SchedulerApi } from "../../services/scheduler/scheduler_api.ts";
import { type RequeuedBy, type Settlement, settleRun } from "../../services/scheduler/settle.ts";
import { SystemicFaults } from "../../services/scheduler/systemic_faults.ts";
import { failNextCommit, unreachable } from "../helpers/failing_commits.ts";
import type { FakeClock } from "../helpers/fake_clock.ts";
import { lastingTenure } from "../helpers/lasting_tenure.ts";
import { MonitorInHand } from "./monitor_in_hand.ts";
import { CONFIG, RANDOM, REPOS } from "./surroundings.ts";

// There are no processes here, and to look for some among all of this machine's would be most of a sweep's time.
vi.mock("../../services/scheduler/orphans.ts", () => ({ findOrphans: () => [], isStagingStep: () => false }));

const HOLDER = { host: "model", pid: 1, since: "2026-01-01T00:00:00.000Z" };
const log = createLog({ level: "silent", service: "scheduler", secrets: [] });

/** The process has died at one of its points. */
export class DeadError extends Error {}

/** At which point, of the so manieth run to reach it, the process dies. */
export interface Trap {
  point: string;
  /** How many reach it before unharmed. */
  after: number;
}

/** A point at which a trap can be laid. */
class TrappedPoints implements Points {
  trap: Trap | null = null;

  async reach(name: string): Promise<void> {
    if (this.trap?.point !== name || this.trap.after-- > 0) return;
    throw new DeadError(name);
  }
}

/** A scheduler's process without processes and git: its storage under its epoch, and everything it has in memory. */
export class SchedulerInHand {
  readonly storage: Storage;
  readonly api: SchedulerApi;
  readonly context: RunContext;
  readonly reaper: Reaper;
  readonly monitors = new Map<number, MonitorInHand>();
  /** What the storage has told of the loss of its epoch. */
  readonly fencedOff: readonly Error[];
  readonly #points = new TrappedPoints();
  readonly #rules: ClaimRules;

  private constructor(storage: Storage, instanceId: string, clock: FakeClock, fencedOff: readonly Error[]) {
    this.storage = storage;
    this.fencedOff = fencedOff;
    const reached: Omit<RunContext, "git" | "mirrors" | "runLogs"> = {
      ...{ config: CONFIG, storage, tenure: lastingTenure, instanceId, clock, log, points: this.#points },
      activeRuns: new ActiveRuns(),
      liveness: new FinalizerLiveness(clock),
      faults: new SystemicFaults({ storage, clock, log }),
      reaperCounters: createReaperCounters(),
      stagingCounters: createStagingCounters(),
      random: () => RANDOM,
      signal: new AbortController().signal,
    };
    const runLogs = { open: async () => undefined, close: async () => undefined, get: () => undefined };
    this.context = { ...reached, runLogs } as unknown as RunContext;
    this.reaper = new Reaper(this.context);
    this.api = createLocalApi(this.context, {
      holder: HOLDER,
      metrics: { text: async () => "" } as unknown as Parameters<typeof createLocalApi>[1]["metrics"],
      readiness: async () => [],
    });
    this.#rules = {
      limits: CONFIG.limits,
      environments: Object.fromEntries(REPOS.map((repo) => [repo, CONFIG.repos[repo]!.environment])),
      probes: () => this.context.faults.probes(),
      modelOf: () => null,
      logPathOf: (runId) => `/nowhere/${runId}.log`,
    };
  }

  /** Takes the next epoch of the database. Nothing has been requeued yet. */
  static async open(
    path: string,
    clock: FakeClock,
    listener: (committed: Committed) => void = () => undefined,
  ): Promise<SchedulerInHand> {
    const fencedOff: Error[] = [];
    const onFencedOff = (error: Error) => void fencedOff.push(error);
    const { storage, instanceId } = await openStorage(
      { url: `file:${path}`, authToken: null, synchronous: "NORMAL", clock, onFencedOff },
      (writer) => takeLease(writer, HOLDER, isoTime(clock.now() + 15_000)),
    );
    storage.onCommitted(listener);
    return new SchedulerInHand(storage, instanceId, clock, fencedOff);
  }

  /** The rest of a start, up to where it may claim. @throws {DeadError} at the trap. */
  async begin(trap: Trap | null = null): Promise<void> {
    await this.#trapped(trap, () => this.requeueRunning());
    this.context.faults.restore(await readPauses(this.storage));
  }

  requeueRunning(): Promise<number> {
    return requeueRunningJobs(this.context);
  }

  /** @returns the run that was begun, or null. */
  async claim(): Promise<number | null> {
    const claim = await this.storage.write((tx) => claimJob(tx, this.#rules));
    if (claim === null) return null;
    this.monitors.set(claim.run.id, new MonitorInHand(this.context, claim));
    return claim.run.id;
  }

  /** A try to settle that the monitor makes before the one that goes through. @throws {DeadError} at the trap. */
  settleTry(runId: number, trap: Trap | null): Promise<Settlement> {
    const { result, by } = this.monitors.get(runId)!;
    return this.#trapped(trap, () => this.settle(runId, result!, by));
  }

  /** A try whose commit is made and its answer lost. Then the lease is renewed, as it is every few seconds. */
  async settleUnanswered(runId: number): Promise<Settlement> {
    failNextCommit(unreachable(), { made: true });
    try {
      return await this.settleTry(runId, null);
    } finally {
      await this.storage.write(probeWrite);
    }
  }

  settle(runId: number, result: RunResult, by: RequeuedBy | null = null): Promise<Settlement> {
    return settleRun(this.context, runId, result, by);
  }

  /** As before a push. */
  checkFence(): Promise<void> {
    return fenceOf(this.context)();
  }

  queueView(): Promise<QueueView> {
    return this.api.queueView();
  }

  async #trapped<T>(trap: Trap | null, work: () => Promise<T>): Promise<T> {
    this.#points.trap = trap;
    try {
      return await work();
    } finally {
      this.#points.trap = null;
    }
  }
}
