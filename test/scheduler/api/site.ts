import { join } from "node:path";
import { type Clock, isoTime, systemClock } from "@orchestrator/shared/clock.ts";
import type { Config } from "@orchestrator/shared/config/config.ts";
import { loadConfig } from "@orchestrator/shared/config/load_config.ts";
import { DEFAULT_PIPELINE, type Pipeline } from "@orchestrator/shared/pipeline.ts";
import { noPoints } from "@orchestrator/shared/points.ts";
import type { Task } from "@orchestrator/shared/schemas/rows.ts";
import { type Claim, claimJob } from "@orchestrator/shared/storage/claim_job.ts";
import { ActiveRun, ActiveRuns } from "../../../services/scheduler/active_runs.ts";
import { createSchedulerApp } from "../../../services/scheduler/app.ts";
import { createReaperCounters, createStagingCounters } from "../../../services/scheduler/counters.ts";
import { FinalizerLiveness } from "../../../services/scheduler/finalizer_liveness.ts";
import { createLocalApi } from "../../../services/scheduler/local_api.ts";
import { createSchedulerMetrics } from "../../../services/scheduler/metrics/scheduler_metrics.ts";
import { RunLogs } from "../../../services/scheduler/run_logs.ts";
import type { RunResult } from "../../../services/scheduler/run_result.ts";
import { type Settlement, settleRun } from "../../../services/scheduler/settle.ts";
import { lastingTenure } from "../../helpers/lasting_tenure.ts";
import { openTestStorage } from "../../helpers/storage.ts";
import { tempFolder } from "../../helpers/temp_folder.ts";
import { captureLog, postJson } from "../../shared/http/harness.ts";

/** The stage `deploy` asks for approval; the others are the default ones. */
export const PIPELINE: Pipeline = {
  ...DEFAULT_PIPELINE,
  stages: DEFAULT_PIPELINE.stages.map((stage) => (stage.name === "deploy" ? { ...stage, approval: true } : stage)),
};

/** A run whose gate was read and passed. */
export const PASSED: RunResult = { kind: "passed", head: "c0ffee" };

const REPO = { url: "../shop.git", baseBranch: "main", push: true, merge: "none", plan: "branch" } as const;

const configIn = (folder: string, over: Partial<Config>): Config => {
  const loaded = loadConfig({ ORCH_DATA_DIR: join(folder, "data"), PATH: "/bin" }, { service: "scheduler" });
  if (loaded.kind !== "ok") throw new Error(loaded.faults.join("\n"));
  return {
    ...loaded.config,
    repos: { shop: { ...REPO, environment: "shop" }, web: { ...REPO, environment: "web" } },
    pipeline: PIPELINE,
    ...over,
  };
};

/**
 * The API as it is served, on a database of its own; no dispatcher and no agents: what they would do, a test does by
 * `claim` and `settle`.
 */
export const openSite = async (
  options: { config?: Partial<Config>; clock?: Clock; heartbeatMs?: number; path?: string } = {},
) => {
  const folder = await tempFolder();
  const clock = options.clock ?? systemClock;
  const path = options.path ?? join(folder, "orchestrator.db");
  const { storage, instanceId } = await openTestStorage({ path, clock });
  const config = configIn(folder, options.config ?? {});
  const context = {
    storage,
    instanceId,
    tenure: lastingTenure,
    clock,
    config,
    activeRuns: new ActiveRuns(),
    runLogs: new RunLogs(),
    liveness: new FinalizerLiveness(clock),
    reaperCounters: createReaperCounters(),
    stagingCounters: createStagingCounters(),
  };
  const holder = { host: "test", pid: process.pid, since: isoTime(clock.now()) };
  const readiness = async () => [];
  const api = createLocalApi(context, { holder, metrics: createSchedulerMetrics(context), readiness });
  const stopping = new AbortController();
  const { log, lines } = captureLog();
  const app = createSchedulerApp({
    ...{ api, config, log, clock, stopping: stopping.signal },
    heartbeatMs: options.heartbeatMs ?? 60_000,
  });

  const post = (target: string, body?: unknown) =>
    app.request(target, body === undefined ? { method: "POST" } : postJson(body));

  /** Hands in a work item; what is left out is sensible. */
  const create = async (workItemId: string, over: Record<string, unknown> = {}): Promise<Task> => {
    const answer = await post("/tasks", { work_item_id: workItemId, title: "A title", repo: "shop", ...over });
    if (answer.status !== 201) throw new Error(`${answer.status}: ${await answer.text()}`);
    const { id } = (await answer.json()) as { id: number };
    return (await api.findTask({ id }))!.task;
  };

  /** Claims the next job, as the dispatcher does. */
  const claim = async (): Promise<{ claim: Claim; run: ActiveRun }> => {
    const claimed = await storage.write((tx) =>
      claimJob(tx, {
        limits: config.limits,
        environments: { shop: "shop", web: "web" },
        probes: () => new Set(),
        modelOf: () => null,
        logPathOf: (runId) => join(folder, "logs", `${runId}.log`),
      }),
    );
    if (claimed === null) throw new Error("there is nothing to claim");
    const run = new ActiveRun(claimed, clock);
    context.activeRuns.add(run);
    return { claim: claimed, run };
  };

  const settle = async (run: ActiveRun, result: RunResult): Promise<Settlement> => {
    const settlement = await settleRun(
      { storage, clock, points: noPoints, config, random: () => 0 },
      run.claim.run.id,
      result,
    );
    context.activeRuns.remove(run);
    return settlement;
  };

  /** A task that is blocked in the stage where it was made. */
  const createBlocked = async (workItemId: string, over: Record<string, unknown> = {}): Promise<Task> => {
    const { id } = await create(workItemId, over);
    const { run } = await claim();
    await settle(run, { kind: "needs_person", class: "foreign_commit", reason: "moved by Ann <ann@example.com>" });
    return (await api.findTask({ id }))!.task;
  };

  /** A task that waits for its approval in `deploy`. */
  const createWaiting = (workItemId: string): Promise<Task> => create(workItemId, { stage: "deploy" });

  const createDone = async (workItemId: string): Promise<Task> => {
    const { id } = await createWaiting(workItemId);
    await post(`/tasks/${id}/approve`, { stage: "deploy" });
    const { run } = await claim();
    await settle(run, PASSED);
    return (await api.findTask({ id }))!.task;
  };

  const history = async (id: number) => (await api.findTask({ id }))!;

  return {
    ...{ app, api, storage, context, config, folder, stopping, lines },
    ...{ post, create, createBlocked, createWaiting, createDone, claim, settle, history },
  };
};
export type Site = Awaited<ReturnType<typeof openSite>>;
