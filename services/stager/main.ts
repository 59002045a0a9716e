import { systemClock } from "@orchestrator/shared/clock.ts";
import { loadConfig } from "@orchestrator/shared/config/load_config.ts";
import { secretsOf } from "@orchestrator/shared/config/secrets.ts";
import { EXIT, exitCodeOf, explain } from "@orchestrator/shared/exit.ts";
import { createPoints } from "@orchestrator/shared/fault_points.ts";
import { checkGit } from "@orchestrator/shared/git/check_git.ts";
import { createGit } from "@orchestrator/shared/git/run_git.ts";
import { createFront } from "@orchestrator/shared/http/front.ts";
import { createLog } from "@orchestrator/shared/log.ts";
import { onSignals, serve } from "@orchestrator/shared/serve.ts";
import { type Part, stopInTurn } from "@orchestrator/shared/stop_in_turn.ts";
import { makeUsable } from "@orchestrator/shared/usable_folder.ts";
import { ActiveRuns } from "./active_runs.ts";
import { createStagerApp } from "./app.ts";
import { RunCounters } from "./counters.ts";
import { StagerDatabase } from "./database.ts";
import { clearLeftovers } from "./leftovers.ts";
import { whyNotReady } from "./readiness.ts";
import { Scratch } from "./scratch.ts";

const loaded = loadConfig(process.env, { service: "stager" });
if (loaded.kind === "invalid") {
  for (const fault of loaded.faults) process.stderr.write(`${fault}\n`);
  process.exit(EXIT.config);
}
const { config } = loaded;
const clock = systemClock;
const log = createLog({ level: config.logLevel, service: "stager", secrets: secretsOf(config) });
for (const warning of loaded.warnings) log.warn(warning);

const fail = (error: unknown): never => {
  log.debug({ err: error }, "the start failed");
  log.fatal(explain(error));
  process.exit(exitCodeOf(error));
};

// In the order in which they start; `stop` goes through them in reverse. Listening comes first: a port that is taken ends the
// start before it has done anything.
const { scratchDir, parentEnv } = config;
const front = createFront({ what: "stager", log, clock, token: config.stagerToken });
const server = await serve({
  fetch: front.fetch,
  host: config.stagerHost,
  port: config.stagerPort,
  onError: (error) => log.error({ err: error }, "a request failed outside its handler"),
}).catch(fail);
// No command of the stager talks to a remote, so none needs the operator's configuration.
const git = (instanceId: string) => createGit({ instanceId, parentEnv, networkConfig: null });
await checkGit(git("")).catch(fail);
await makeUsable("ORCH_SCRATCH_DIR", scratchDir).catch(fail);
await clearLeftovers({ scratchDir, clock, log }).catch(fail);
const scratch = await Scratch.open(scratchDir).catch(fail);
const database = new StagerDatabase(config.dbUrl, config.dbAuthToken);
const counters = new RunCounters();
const readJob = database.readJob.bind(database);
const readInstanceId = database.readInstanceId.bind(database);
const runs = new ActiveRuns({
  config,
  points: createPoints(config.faultPoint),
  clock,
  log,
  scratch,
  counters,
  readJob,
  git,
});
const readiness = () =>
  whyNotReady({ isStopping: () => runs.stopping, readInstanceId, probeScratch: () => scratch.probe() });
front.open(createStagerApp({ config, clock, log, runs, counters, readJob, readInstanceId, readiness }));
log.info({ host: config.stagerHost, port: server.port, database: config.dbUrl, scratch: scratch.folder }, "ready");

onSignals((signal) => {
  void (async () => {
    log.info({ reason: signal }, "stopping");
    // The streams end with their runs, and only then can the server close.
    const leaveScratch = () =>
      scratch.close().catch((error: unknown) => log.warn({ err: error }, "the scratch folder stays behind"));
    const parts: Part[] = [
      ["the staging runs", () => runs.stop()],
      ["the server", () => server.close()],
      ["the database", () => database.close()],
      ["the scratch folder", leaveScratch],
    ];
    const exitCode = await stopInTurn(parts, log).then(() => EXIT.ok, exitCodeOf);
    log.info("stopped");
    process.exit(exitCode);
  })();
});
