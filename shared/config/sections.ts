import { dirname, isAbsolute, resolve } from "node:path";
import type { Pipeline } from "../pipeline.ts";
import type { AgentConfig, LimitsConfig, NotifyConfig, RepoConfig } from "./config.ts";
import type { ConfigFile } from "./config_file.ts";
import { variableNamed } from "./config_schema.ts";
import type { EnvironmentConfig } from "./environment.ts";
import { foundAccepted } from "./fault.ts";
import { resolveGitUrl } from "./git_url.ts";
import type { Environment } from "./variables.ts";

const DEFAULT_TOTAL = 4;

/** By name, without what every object inherits: a request may name `constructor`. */
const byName = <T>(entries: Iterable<readonly [string, T]>): Record<string, T> =>
  Object.assign(Object.create(null), Object.fromEntries(entries));

/** The repositories, with their defaults filled in and local paths made absolute, relative to the file. */
export const toRepos = (file: ConfigFile, configPath: string): Record<string, RepoConfig> =>
  byName(
    Object.entries(file.sections.repos ?? {}).map(([name, repo]) => [
      name,
      {
        url: resolveGitUrl(repo.url, dirname(configPath)),
        baseBranch: repo.base_branch,
        push: repo.push,
        merge: repo.merge,
        environment: repo.environment ?? name,
        plan: repo.plan,
      },
    ]),
  );

type Argv = readonly [string, ...string[]];

/** A program that is a relative path is relative to the file: in a workspace it would be whatever the branch put there. */
const toArgv = ([program = "", ...args]: readonly string[], configPath: string): Argv => [
  program.includes("/") && !isAbsolute(program) ? resolve(dirname(configPath), program) : program,
  ...args,
];

/**
 * The programs of the agents.
 * @param env where values of the form `$NAME` are taken from; null: they are left out, for a service that starts no agents
 * and need not hold their keys.
 */
export const toAgents = (
  file: ConfigFile,
  {
    configPath,
    jobTimeoutMs,
    stallTimeoutMs,
  }: Pick<EnvironmentConfig, "configPath" | "jobTimeoutMs" | "stallTimeoutMs">,
  env: Environment | null,
): Record<string, AgentConfig> =>
  byName(
    Object.entries(file.agents).map(([name, agent]) => [
      name,
      {
        command: toArgv(agent.command, configPath),
        model: agent.model ?? null,
        timeoutMs: agent.timeout_s === undefined ? jobTimeoutMs : agent.timeout_s * 1000,
        stallTimeoutMs: agent.stall_timeout_s === undefined ? stallTimeoutMs : agent.stall_timeout_s * 1000,
        env: byName(
          Object.entries(env === null ? {} : agent.env).map(([key, value]) => [
            key,
            takeValue(file, ["agents", name, "env", key], value, env ?? {}),
          ]),
        ),
      },
    ]),
  );

const takeValue = (file: ConfigFile, path: string[], value: string, env: Environment): string => {
  const name = variableNamed(value);
  if (name === null) return value;
  const taken = Object.hasOwn(env, name) ? env[name] : undefined;
  if (taken === undefined) {
    file.fault(
      path,
      foundAccepted(`$${name}, which is not set`, "a text, or a variable that is set in the environment"),
    );
  }
  return taken ?? "";
};

/**
 * How much may run at once. The environment's number wins over the file's.
 * @param pipeline whose agents may be limited; null: unknown, so that their names are not checked.
 */
export const toLimits = (
  file: ConfigFile,
  maxConcurrentJobs: number | null,
  pipeline: Pipeline | null,
): LimitsConfig => {
  const { total, per_repo = {}, per_agent = {} } = file.sections.limits ?? {};
  const check = (key: string, names: string[], known: readonly string[]): void => {
    const accepted = [...new Set(known), "default"].filter((name, index, all) => all.indexOf(name) === index);
    for (const name of names.filter((candidate) => !accepted.includes(candidate))) {
      file.fault(["limits", key, name], foundAccepted("an unknown name", `one of ${accepted.join(", ")}`));
    }
  };
  check("per_repo", Object.keys(per_repo), file.repoNames);
  if (pipeline !== null) {
    check("per_agent", Object.keys(per_agent), [...pipeline.stages.map(({ agent }) => agent), ...file.agentNames]);
  }
  return {
    total: maxConcurrentJobs ?? total ?? DEFAULT_TOTAL,
    perRepo: byName(Object.entries(per_repo)),
    perAgent: byName(Object.entries(per_agent)),
  };
};

/** Whom to tell what needs a person; null where the file does not say. */
export const toNotify = (file: ConfigFile, configPath: string, env: Environment | null): NotifyConfig | null => {
  const { notify } = file.sections;
  if (notify === undefined) return null;
  const { url, command, secret, on } = notify;
  if ((url === undefined) === (command === undefined)) {
    file.fault(["notify"], foundAccepted(url === undefined ? "neither" : "both", "either url or command"));
    return null;
  }
  if (secret !== undefined && url === undefined) {
    file.fault(["notify", "secret"], foundAccepted("a secret beside a command", "a secret beside a url"));
  }
  if (url === undefined) return { target: { kind: "command", command: toArgv(command ?? [], configPath) }, on };
  const taken = secret === undefined || env === null ? null : takeValue(file, ["notify", "secret"], secret, env);
  return { target: { kind: "url", url, secret: taken }, on };
};
