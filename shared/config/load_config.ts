import { delimiter } from "node:path";
import { DEFAULT_PIPELINE } from "../pipeline.ts";
import { createTextRedactor } from "../redact.ts";
import type { Config } from "./config.ts";
import { readConfigFile } from "./config_file.ts";
import { configWarnings, faultPointWarning } from "./config_warnings.ts";
import { type EnvironmentConfig, readEnvironment } from "./environment.ts";
import { isLoopback } from "./loopback.ts";
import { toPipeline } from "./pipeline_config.ts";
import { toAgents, toLimits, toNotify, toRepos } from "./sections.ts";
import { readTokenFiles } from "./token_files.ts";
import { type Environment, Variables } from "./variables.ts";

export interface LoadOptions {
  /** What relative paths of the environment are relative to; default: the process's working directory. */
  cwd?: string;
  /** Each service is asked only for what it needs: the stager need not hold the agents' keys. Default: the scheduler. */
  service: "scheduler" | "stager";
  /** Whether the file that `ORCH_CONFIG` names is still to be put there: then a missing one is an empty one. Default: no. */
  configMayBeMissing?: boolean;
}

export type LoadedConfig =
  | { kind: "ok"; config: Config; warnings: string[] }
  /** Everything that is wrong, one line each: which key, what was there (never a secret), what is accepted. */
  | { kind: "invalid"; faults: string[] };

type Settings = Omit<EnvironmentConfig, "maxConcurrentJobs">;

/**
 * Reads the configuration from the environment given and from the config file that it names. What the environment sets wins
 * over the file. Nothing is written, and nothing is read but that file and the tokens' own.
 */
export const loadConfig = (env: Environment, options?: LoadOptions): LoadedConfig => {
  const { cwd = process.cwd(), service = "scheduler", configMayBeMissing = false } = options ?? {};
  const tokenFiles = readTokenFiles(env, cwd, service);
  const variables = new Variables({ ...env, ...tokenFiles.tokens });
  for (const { name, text } of tokenFiles.faults) variables.fault(name, text);
  // Acted on before, since the tokens are to be there by now.
  variables.flag("ORCH_MAKE_TOKENS", false);
  const { maxConcurrentJobs, ...settings } = readEnvironment(variables, env, cwd);
  if (service === "scheduler") checkStagerUrl(settings, variables);
  checkAccess(settings, service, variables);

  const file = readConfigFile(settings.configPath, variables.get("ORCH_CONFIG") !== null && !configMayBeMissing);
  const forAgents = service === "scheduler" ? env : null;
  const section = file.sections.pipeline;
  const pipeline =
    section === undefined ? DEFAULT_PIPELINE : toPipeline(section, settings.stagingRunnerEnabled, file.fault);
  const config: Config = {
    ...settings,
    repos: toRepos(file, settings.configPath),
    agents: toAgents(file, settings, forAgents),
    // With a faulty pipeline nobody knows its agents.
    limits: toLimits(file, maxConcurrentJobs, file.isFaulty("pipeline") ? null : pipeline),
    notify: toNotify(file, settings.configPath, forAgents),
    pipeline,
    parentEnv: withoutOwn(env),
  };
  const faults = [...variables.faults, ...file.faults()];
  if (faults.length > 0) {
    const clean = createTextRedactor(tokensOf(variables));
    return { kind: "invalid", faults: faults.map(clean) };
  }
  const warnings = [...faultPointWarning(config), ...(service === "scheduler" ? configWarnings(config) : [])];
  return { kind: "ok", config, warnings };
};

/** A port that is chosen at the start of the stager cannot be known here. */
const checkStagerUrl = ({ stagerPort, stagingRunnerEnabled }: Settings, variables: Variables): void => {
  if (stagingRunnerEnabled && stagerPort === 0 && variables.get("ORCH_STAGER_URL") === null) {
    variables.fault("ORCH_STAGER_URL", "missing, accepted: the stager's URL, since ORCH_STAGER_PORT is 0");
  }
};

/** What others can reach needs a token: whoever may call the API may start programs. */
const checkAccess = (settings: Settings, service: LoadOptions["service"], variables: Variables): void => {
  const [hostName, host, needed] =
    service === "scheduler"
      ? (["ORCH_HOST", settings.host, ["ORCH_API_TOKEN", "ORCH_STAGER_TOKEN"]] as const)
      : (["ORCH_STAGER_HOST", settings.stagerHost, ["ORCH_STAGER_TOKEN"]] as const);
  if (isLoopback(host)) return;
  for (const name of needed.filter((token) => variables.get(token) === null)) {
    variables.fault(
      name,
      `missing, accepted: a token, since ${hostName} is ${host}, which others can reach (127.0.0.1 needs none)`,
    );
  }
};

/** A shorter one could be any word, and taking that out of a fault would only spoil it. */
const MIN_TOKEN = 6;

const tokensOf = (variables: Variables): string[] =>
  ["ORCH_API_TOKEN", "ORCH_STAGER_TOKEN", "ORCH_DB_AUTH_TOKEN"]
    .map((name) => variables.get(name) ?? "")
    .filter((token) => token.length >= MIN_TOKEN);

/** What children may inherit from: never the orchestrator's own settings, of which some are secrets. */
const withoutOwn = (env: Environment): Record<string, string> => {
  const kept = Object.entries(env).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && !entry[0].startsWith("ORCH_"),
  );
  return Object.fromEntries(kept.map(([name, value]) => [name, name === "PATH" ? withoutNpm(value, env) : value]));
};

/**
 * A script that npm runs has npm's own directories in front of its PATH. They are this program's business: an agent that asks
 * for its compiler is to find its own.
 */
const withoutNpm = (path: string, env: Environment): string =>
  env.npm_lifecycle_event === undefined
    ? path
    : path
        .split(delimiter)
        .filter((folder) => !/\/node_modules\/\.bin$|\/node-gyp-bin$/.test(folder))
        .join(delimiter);
