import { systemClock } from "@orchestrator/shared/clock.ts";
import { loadConfig } from "@orchestrator/shared/config/load_config.ts";
import { secretsOf } from "@orchestrator/shared/config/secrets.ts";
import { EXIT, exitCodeOf, explain } from "@orchestrator/shared/exit.ts";
import { createPoints } from "@orchestrator/shared/fault_points.ts";
import { createFront } from "@orchestrator/shared/http/front.ts";
import { createLog } from "@orchestrator/shared/log.ts";
import { makeTokens } from "@orchestrator/shared/make_tokens.ts";
import { onSignals, serve } from "@orchestrator/shared/serve.ts";
import { type Part, stopInTurn } from "@orchestrator/shared/stop_in_turn.ts";
import { createSchedulerApp } from "./app.ts";
import { firstStart } from "./first_start.ts";
import { startScheduler } from "./scheduler.ts";
import { whyNotListening } from "./scheduler_lock.ts";

const madeTokens = await makeTokens(process.env, process.cwd()).catch((error: unknown) => {
  process.stderr.write(`${explain(error)}\n`);
  return process.exit(exitCodeOf(error));
});
const loaded = loadConfig(process.env, { service: "scheduler" });
if (loaded.kind === "invalid") {
  for (const fault of loaded.faults) process.stderr.write(`${fault}\n`);
  process.exit(EXIT.config);
}
const { config } = loaded;
const log = createLog({ level: config.logLevel, service: "scheduler", secrets: secretsOf(config) });
for (const path of madeTokens) log.info({ path }, "made a token");
for (const warning of loaded.warnings) log.warn(warning);

// What has been started, for `stop` to go through in reverse. Before there is anything, a signal just ends the process:
// no agent has been started, and the kernel frees the lock.
const stops: Part[] = [];
const stopping = new AbortController();

let exitCode: number = EXIT.ok;
const stop = async (reason: string, code: number): Promise<void> => {
  // Whatever is found out while it stops counts as well.
  exitCode = Math.max(exitCode, code);
  if (stopping.signal.aborted) return;
  stopping.abort();
  log.info({ reason }, "stopping");
  const stopped = await stopInTurn(stops.reverse(), log).then(() => EXIT.ok, exitCodeOf);
  log.info("stopped");
  process.exit(Math.max(exitCode, stopped));
};

const fail = async (error: unknown): Promise<never> => {
  // A start that a stop has cut short: that one ends the process.
  if (stopping.signal.aborted) return new Promise(() => {});
  log.debug({ err: error }, "the start failed");
  log.fatal(explain(error));
  process.exit(exitCodeOf(error));
};

/** How long a scheduler that another has taken over from may stop, in ms, on top of the grace that its agents have. */
const FENCED_OFF_MARGIN_MS = 5_000;
const endAtLast = (): never => {
  const ms = config.killGraceMs + FENCED_OFF_MARGIN_MS;
  log.error(`not all could be stopped within ${ms} ms; ending all the same, since another scheduler works`);
  process.exit(EXIT.notTheScheduler);
};

onSignals((signal) => void stop(signal, EXIT.ok));

// In the order in which they start. Listening comes first: a port that is taken ends the start before it has done anything.
const front = createFront({ what: "scheduler", log, clock: systemClock, token: config.apiToken });
const server = await serve({
  fetch: front.fetch,
  host: config.host,
  port: config.port,
  onError: (error) => log.error({ err: error }, "a request failed outside its handler"),
}).catch(async (error: unknown) => fail(await whyNotListening(error, config).catch(() => error)));
log.info({ host: config.host, port: server.port }, "listening");

const scheduler = await startScheduler({
  config,
  clock: systemClock,
  log,
  points: createPoints(config.faultPoint),
  random: Math.random,
  signal: stopping.signal,
  onFencedOff: (error) => {
    setTimeout(endAtLast, config.killGraceMs + FENCED_OFF_MARGIN_MS);
    void stop(error.message, EXIT.notTheScheduler);
  },
}).catch(fail);
stops.push(["the scheduler", () => scheduler.stop()]);
// First nothing is claimed any more, then nobody is let in, and then what runs is brought to its end.
stops.push(["the server", () => server.close()]);
stops.push(["the dispatcher", () => scheduler.stopClaiming()]);
const first = firstStart(config);
front.open(
  createSchedulerApp({
    ...{ api: scheduler.api, config, log, clock: systemClock, stopping: stopping.signal },
    firstStart: first,
  }),
);

log.info({ host: config.host, port: server.port, database: config.dbUrl, config: config.configPath }, "ready");
if (first !== null) log.info(first.line);
