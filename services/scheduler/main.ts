import { systemClock } from "@orchestrator/shared/clock.ts";
import { loadConfig } from "@orchestrator/shared/config/load_config.ts";
import { EXIT, exitCodeOf, explain } from "@orchestrator/shared/exit.ts";
import { createLog } from "@orchestrator/shared/log.ts";
import { noPoints } from "@orchestrator/shared/points.ts";
import { onSignals, serve } from "@orchestrator/shared/serve.ts";
import { createSchedulerApp } from "./app.ts";
import { startScheduler } from "./scheduler.ts";

const loaded = loadConfig(process.env, { service: "scheduler" });
if (loaded.kind === "invalid") {
  for (const fault of loaded.faults) process.stderr.write(`${fault}\n`);
  process.exit(EXIT.config);
}
const { config } = loaded;
const secrets = [config.apiToken, config.stagerToken, config.dbAuthToken].filter((secret) => secret !== null);
const log = createLog({ level: config.logLevel, service: "scheduler", secrets });
for (const warning of loaded.warnings) log.warn(warning);

// What has been started, for `stop` to go through in reverse. Before there is anything, a signal just ends the process:
// no agent has been started, and the kernel frees the lock.
const stops: (() => Promise<void>)[] = [];
const stopping = new AbortController();

const stop = async (reason: string, exitCode: number): Promise<void> => {
  if (stopping.signal.aborted) return;
  stopping.abort();
  log.info({ reason }, "stopping");
  for (const part of stops.reverse()) await part();
  log.info("stopped");
  process.exit(exitCode);
};

const fail = (error: unknown): never => {
  log.debug({ err: error }, "the start failed");
  log.fatal(explain(error));
  process.exit(exitCodeOf(error));
};

onSignals((signal) => void stop(signal, EXIT.ok));

const scheduler = await startScheduler({
  config,
  clock: systemClock,
  log,
  points: noPoints,
  random: Math.random,
  onFencedOff: (error) => void stop(error.message, EXIT.notTheScheduler),
}).catch(fail);
stops.push(() => scheduler.stop());

const app = createSchedulerApp({
  api: scheduler.api,
  config,
  log,
  clock: systemClock,
  stopping: stopping.signal,
});
const server = await serve({
  fetch: app.fetch,
  host: config.host,
  port: config.port,
  onError: (error) => log.error({ err: error }, "a request failed outside its handler"),
}).catch(fail);
stops.push(() => server.close());

log.info({ host: config.host, port: server.port, database: config.dbUrl, config: config.configPath }, "ready");
