import { rm } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { STAGING_STAGE } from "@orchestrator/shared/domain.ts";
import { killLeftovers } from "../demo/leftovers.ts";
import { readSnapshot, type Snapshot } from "./database.ts";
import { checkDisk } from "./disk.ts";
import { Feed } from "./feed.ts";
import type { CrashReport } from "./figures.ts";
import { Findings } from "./findings.ts";
import { checkBranches, checkHistory, checkKept } from "./git_invariants.ts";
import { checkDatabase, checkFinished, checkJournal, checkRecovered, isMove } from "./invariants.ts";
import { readJournal } from "./journal.ts";
import { agentsOfEarlierRuns, leftovers } from "./processes.ts";
import type { Round } from "./rounds.ts";
import { bareStartMs, type CrashService, type ServiceName, startService } from "./service.ts";
import { type CrashSite, makeCrashSite } from "./site.ts";

export interface CrashOptions {
  seed: number;
  rounds: Record<ServiceName, readonly Round[]>;
  /** Told each kill and each violation as it comes. */
  onLine?: (text: string) => void;
  /** Leaves the folder for a look where something was violated. */
  keepFolder?: boolean;
  /** Ends it early, with nothing left; its reason is thrown. */
  signal?: AbortSignal;
}

const OPEN_ITEMS = 6;
const ANSWER_MS = 20_000;
const TEND_MS = 200;
/** A scheduler that brings nothing forward for so long is stuck. */
const STUCK_MS = 90_000;
/** A service that does not come to its point in this time never will. */
const POINT_MS = 240_000;
const STOP_MS = 30_000;
const BARE_STARTS = 10;

/** Crashes the services as told, restarts them, and looks from outside whether all that was promised holds. */
export const runCrashes = async (options: CrashOptions): Promise<CrashReport> => {
  const site = await makeCrashSite();
  const harness = new Harness(site, options);
  try {
    return await Promise.race([harness.run(), rejectedOn(options.signal)]);
  } finally {
    await harness.endAll();
    if (!options.keepFolder || harness.findings.violations.length === 0)
      await rm(site.folder, { recursive: true, force: true });
  }
};

const rejectedOn = (signal?: AbortSignal): Promise<never> =>
  new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));

/** One that is told to stop may come to its end before it is killed; before it listens to signals, it just dies of them. */
const isExpected = ({ code, signal }: Awaited<CrashService["ended"]>, { kind }: Round): boolean =>
  signal === "SIGKILL" || (kind === "stop" && (code === 0 || signal === "SIGTERM"));

const isRunning = (seen: Snapshot | null): boolean => seen?.jobs.some((job) => job.status === "running") ?? false;

class Harness {
  readonly findings: Findings;
  readonly #site: CrashSite;
  readonly #options: CrashOptions;
  readonly #feed: Feed;
  readonly #services = new Map<ServiceName, CrashService>();
  #starts = 0;
  #over = false;

  constructor(site: CrashSite, options: CrashOptions) {
    this.#site = site;
    this.#options = options;
    this.#feed = new Feed(site, OPEN_ITEMS, ANSWER_MS);
    this.findings = new Findings(options.onLine);
  }

  async run(): Promise<CrashReport> {
    const { rounds, seed } = this.#options;
    for (let n = 0; n < BARE_STARTS; n += 1) this.findings.runtimeMs.push(await bareStartMs());
    const tending = this.#tend();
    // It is awaited at the end; until then its failure is no reason for the runtime to give up.
    tending.catch(() => undefined);
    await Promise.all([this.#crashScheduler(rounds.scheduler), this.#crashStager(rounds.stager)]);
    this.#feed.stop();
    await this.#finish();
    this.#over = true;
    await tending;
    const seen = await this.#stopAll();
    return this.findings.report(seed, seen, this.#feed.helped);
  }

  /** Ends whatever is left, after a failure of the harness as well. */
  async endAll(): Promise<void> {
    this.#over = true;
    for (const service of this.#services.values()) {
      service.send("SIGKILL");
      await service.ended;
    }
    await killLeftovers(this.#site.folder, STOP_MS);
  }

  async #tend(): Promise<void> {
    while (!this.#over) {
      await this.#feed.tend();
      this.findings.violated(this.#feed.violations.splice(0));
      await sleep(TEND_MS);
    }
  }

  async #crashScheduler(rounds: readonly Round[]): Promise<void> {
    let before = await readSnapshot(this.#site);
    const left = [...rounds];
    for (let round = left.shift(); round !== undefined; round = left.shift()) {
      // What is done to running jobs at a start can be cut short only where there are some.
      if (round.kind === "point" && round.point === "start.requeue" && !isRunning(before)) {
        left.unshift(round);
        round = { kind: "at_work" };
      }
      const service = this.#start("scheduler", round);
      const readyMs = await service.ready;
      if (readyMs !== null) await this.#recovered(readyMs, before);
      await this.#untilDead(service, round);
      const after = await readSnapshot(this.#site);
      if (after !== null) {
        this.#noteFirstClaim(service, before, after);
        await this.#checkDead(after);
      }
      before = after;
    }
    const last = this.#start("scheduler", null);
    const readyMs = await last.ready;
    if (readyMs === null) throw new Error(`the scheduler ended by itself: ${last.tail.join("\n")}`);
    await this.#recovered(readyMs, before);
  }

  async #crashStager(rounds: readonly Round[]): Promise<void> {
    for (const round of rounds) {
      const service = this.#start("stager", round);
      await service.ready;
      await this.#untilDead(service, round);
    }
    await this.#start("stager", null).ready;
  }

  #start(name: ServiceName, round: Round | null): CrashService {
    if (this.#over) throw new Error("it is over");
    const service = startService(this.#site, name, round?.kind === "point" ? round.fault : null);
    this.#services.set(name, service);
    if (name === "scheduler") this.#starts += 1;
    if (round?.kind === "at_work") void this.#killAtWork(service);
    if (round?.kind === "moment") void sleep(round.afterMs).then(() => service.send("SIGKILL"));
    if (round?.kind === "stop") {
      void sleep(round.afterMs)
        .then(() => service.send("SIGTERM"))
        .then(() => sleep(round.killAfterMs))
        .then(() => service.send("SIGKILL"));
    }
    return service;
  }

  async #killAtWork(service: CrashService): Promise<void> {
    while (service.ending() === null && !isRunning(await readSnapshot(this.#site))) await sleep(50);
    service.send("SIGKILL");
  }

  async #untilDead(service: CrashService, round: Round): Promise<void> {
    const what = round.kind === "point" ? round.fault : round.kind === "stop" ? "while stopping" : "at a moment";
    const ending = await this.#endOf(service);
    if (ending === null) {
      this.findings.violated([`the ${service.name} did not come to ${what}`]);
      service.send("SIGKILL");
      await service.ended;
    } else if (!isExpected(ending, round)) {
      this.findings.violated([
        `the ${service.name} ended by itself (${ending.code ?? ending.signal}): ${service.tail.slice(-5).join(" | ")}`,
      ]);
    }
    this.findings.complained(service);
    if (ending?.signal === "SIGKILL") {
      this.findings.killed(`${service.name} ${round.kind === "point" ? round.point : what}`);
    } else if (ending !== null && round.kind === "stop") this.findings.stopped();
  }

  /** Null where it lives on although nothing moves any more, or for longer than any point is away. */
  async #endOf(service: CrashService): Promise<Awaited<CrashService["ended"]> | null> {
    const began = performance.now();
    let [moved, movedAt] = [0, began];
    while (performance.now() - began < POINT_MS) {
      const ending = await Promise.race([service.ended, sleep(3_000, null)]);
      if (ending !== null) return ending;
      const last = (await readSnapshot(this.#site))?.events.filter(isMove).length ?? 0;
      if (last !== moved) [moved, movedAt] = [last, performance.now()];
      if (performance.now() - movedAt > STUCK_MS) return null;
    }
    return null;
  }

  /** The scheduler says that it is ready: what its predecessor ran must be ended and requeued by now. */
  async #recovered(readyMs: number, before: Snapshot | null): Promise<void> {
    this.findings.readyMs.push(readyMs);
    if (before === null) return;
    this.findings.recoveries += 1;
    const lastRunId = before.runs.at(-1)?.id ?? 0;
    this.findings.violated(agentsOfEarlierRuns(before.instanceId, lastRunId));
    const now = await readSnapshot(this.#site);
    if (now !== null) this.findings.violated(checkRecovered(now, lastRunId));
  }

  /** Counts only where something was due at the start that no other run was in the way of. */
  #noteFirstClaim(service: CrashService, before: Snapshot | null, after: Snapshot): void {
    if (before === null || before.pauses.length > 0) return;
    const isDue = (job: Snapshot["jobs"][number]): boolean =>
      job.stage !== STAGING_STAGE &&
      (job.status === "running" || (job.status === "queued" && Date.parse(job.availableAt) <= service.startedAtMs));
    const lastId = before.events.at(-1)?.id ?? 0;
    const claimed = after.events.find((event) => event.id > lastId && event.kind === "claimed");
    if (claimed && before.jobs.some(isDue)) this.findings.claimMs.push(Date.parse(claimed.at) - service.startedAtMs);
  }

  async #checkDead(seen: Snapshot): Promise<void> {
    this.findings.violated([
      ...checkDatabase(seen, this.#feed.accepted),
      ...checkJournal(await readJournal(this.#site)),
      ...(await checkBranches(this.#site, seen)),
    ]);
  }

  /** Waits until all that was fed is done, or nothing moves any more. */
  async #finish(): Promise<void> {
    let [moved, movedAt] = [0, performance.now()];
    for (;;) {
      const seen = await readSnapshot(this.#site);
      if (seen?.tasks.every((task) => task.status === "done") && seen.runs.every((run) => run.outcome !== null)) return;
      const last = seen?.events.filter(isMove).length ?? 0;
      if (last !== moved) [moved, movedAt] = [last, performance.now()];
      if (performance.now() - movedAt > STUCK_MS) return this.findings.violated(["nothing moves any more"]);
      await sleep(500);
    }
  }

  async #stopAll(): Promise<Snapshot> {
    await this.#checkCounters();
    for (const name of ["scheduler", "stager"] as const) {
      const service = this.#services.get(name)!;
      service.send("SIGTERM");
      const ending = await Promise.race([service.ended, sleep(STOP_MS, null)]);
      if (ending?.code !== 0) this.findings.violated([`the ${name} did not stop: ${JSON.stringify(ending)}`]);
      this.findings.complained(service);
    }
    const seen = await readSnapshot(this.#site);
    if (seen === null) throw new Error("the database is gone");
    await this.#checkDead(seen);
    this.findings.violated([
      ...checkFinished(seen),
      ...(await checkHistory(this.#site, seen)),
      ...(await checkKept(this.#site, seen, await readJournal(this.#site))),
      ...leftovers(this.#site),
      ...(await checkDisk(this.#site, seen)),
    ]);
    if (seen.epoch > this.#starts || seen.epoch < this.findings.recoveries)
      this.findings.violated([`the epoch is ${seen.epoch} after ${this.#starts} starts`]);
    return seen;
  }

  async #checkCounters(): Promise<void> {
    const queue = (await (await fetch(`${this.#site.schedulerUrl}/queue`)).json()) as {
      running: unknown[];
      finalizer_liveness: object;
      reaper: Record<string, number>;
      staging_runner: Record<"runs" | "success" | "failed" | "tool_error", number>;
    };
    const { runs, success, failed, tool_error: toolError } = queue.staging_runner;
    if (runs !== success + failed + toolError)
      this.findings.violated([`the staging counters disagree: ${JSON.stringify(queue.staging_runner)}`]);
    if (queue.running.length > 0 || Object.keys(queue.finalizer_liveness).length > 0)
      this.findings.violated([`something still runs: ${JSON.stringify(queue)}`]);
    for (const name of ["errors", "leaked_marks", "reaped_requeued", "reaped_failed", "finalizer_expired"]) {
      if (queue.reaper[name] !== 0) this.findings.violated([`the reaper counts ${queue.reaper[name]} ${name}`]);
    }
  }
}
