import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isoTime, systemClock } from "@orchestrator/shared/clock.ts";
import type { Config } from "@orchestrator/shared/config/config.ts";
import { loadConfig } from "@orchestrator/shared/config/load_config.ts";
import type { HttpEnv } from "@orchestrator/shared/http/env.ts";
import { createLog } from "@orchestrator/shared/log.ts";
import { noPoints } from "@orchestrator/shared/points.ts";
import { fileOfUrl } from "@orchestrator/shared/storage/connection.ts";
import { openStorage } from "@orchestrator/shared/storage/open.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";
import { takeLease } from "@orchestrator/shared/storage/take_lease.ts";
import type { Hono } from "hono";
import { ActiveRuns } from "../../services/scheduler/active_runs.ts";
import { createSchedulerApp } from "../../services/scheduler/app.ts";
import { createReaperCounters, createStagingCounters } from "../../services/scheduler/counters.ts";
import { FinalizerLiveness } from "../../services/scheduler/finalizer_liveness.ts";
import { createLocalApi } from "../../services/scheduler/local_api.ts";
import { createSchedulerMetrics } from "../../services/scheduler/metrics/scheduler_metrics.ts";
import { RunLogs } from "../../services/scheduler/run_logs.ts";
import type { SchedulerApi } from "../../services/scheduler/scheduler_api.ts";
import type { SettleDeps } from "../../services/scheduler/settle.ts";

/** The environment of a scheduler whose data is in `folder`. */
export const benchEnvironment = async (folder: string): Promise<Record<string, string>> => {
  await mkdir(folder, { recursive: true });
  const configPath = join(folder, "orchestrator.yaml");
  await writeFile(configPath, "repos:\n  shop: { url: ../shop.git }\nagents:\n  default: { command: [/bin/true] }\n");
  return { PATH: process.env.PATH ?? "", HOME: folder, ORCH_DATA_DIR: folder, ORCH_CONFIG: configPath, ORCH_PORT: "0" };
};

/** A scheduler's storage and API on a database of its own, with nobody who claims but who measures. */
export interface BenchSite {
  config: Config;
  storage: Storage;
  api: SchedulerApi;
  app: Hono<HttpEnv>;
  settleDeps: SettleDeps;
}

export const databasePath = async (folder: string): Promise<string> => fileOfUrl((await benchConfig(folder)).dbUrl);

export const openBenchSite = async (folder: string): Promise<BenchSite> => {
  const config = await benchConfig(folder);
  const clock = systemClock;
  const holder = { host: "bench", pid: process.pid, since: isoTime(clock.now()) };
  const { dbUrl: url, dbSynchronous: synchronous } = config;
  const database = { url, authToken: null, synchronous, clock, onFencedOff: () => undefined };
  const { storage, instanceId } = await openStorage(database, (writer) =>
    takeLease(writer, holder, isoTime(clock.now() + config.leaseTtlMs)),
  );
  const log = createLog({ level: "info", service: "scheduler", secrets: [], destination: { write: () => undefined } });
  const context = {
    ...{ config, storage, clock, instanceId },
    activeRuns: new ActiveRuns(),
    runLogs: new RunLogs(),
    liveness: new FinalizerLiveness(clock),
    reaperCounters: createReaperCounters(),
    stagingCounters: createStagingCounters(),
  };
  const metrics = createSchedulerMetrics(context);
  const api = createLocalApi(context, { holder, metrics, readiness: async () => [] });
  const app = createSchedulerApp({ api, config, log, clock, stopping: new AbortController().signal });
  const settleDeps = { storage, clock, points: noPoints, config, random: () => 0 };
  return { config, storage, api, app, settleDeps };
};

const benchConfig = async (folder: string): Promise<Config> => {
  const loaded = loadConfig(await benchEnvironment(folder), { service: "scheduler" });
  if (loaded.kind === "invalid") throw new Error(loaded.faults.join("\n"));
  return loaded.config;
};
