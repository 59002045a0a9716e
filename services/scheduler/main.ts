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

const fail = (error: unknown): never => {
  log.debug({ err: error }, "the start failed");
  log.fatal(explain(error));
  process.exit(exitCodeOf(error));
};

// In the order in which they start; `stop` goes through them in reverse.
const scheduler = await startScheduler({
  config,
  clock: systemClock,
  log,
  points: noPoints,
  random: Math.random,
  onFencedOff: (error) => void stop(error.message, EXIT.notTheScheduler),
}).catch(fail);
const app = createSchedulerApp({ api: scheduler.api, config, log, clock: systemClock });
const server = await serve({
  fetch: app.fetch,
  host: config.host,
  port: config.port,
  onError: (error) => log.error({ err: error }, "a request failed outside its handler"),
}).catch(fail);
log.info({ host: config.host, port: server.port, database: config.dbUrl, config: config.configPath }, "ready");

let stopping: Promise<void> | null = null;
function stop(reason: string, exitCode: number): Promise<void> {
  stopping ??= (async () => {
    log.info({ reason }, "stopping");
    await server.close();
    await scheduler.stop();
    log.info("stopped");
    process.exit(exitCode);
  })();
  return stopping;
}
onSignals((signal) => void stop(signal, EXIT.ok));
