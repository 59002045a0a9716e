import type { FaultPoint } from "../fault_points.ts";
import type { Pipeline } from "../pipeline.ts";

/** One repository that work items may name. */
export interface RepoConfig {
  /** What git fetches from and pushes to; a relative path in the file has been made absolute. */
  url: string;
  baseBranch: string;
  push: boolean;
  merge: "none" | "merge" | "squash";
  /** Staging runs of repositories that share an environment exclude one another. */
  environment: string;
  /** Whose staging plan counts: the branch's or the base branch's. */
  plan: "branch" | "base";
}

/** The program that works an agent's jobs. */
export interface AgentConfig {
  /** Program and arguments; run without a shell. `{prompt}` in an argument is replaced by the prompt. */
  command: readonly [string, ...string[]];
  model: string | null;
  timeoutMs: number;
  stallTimeoutMs: number;
  /** Values already taken from the scheduler's environment where the file said `$NAME`. */
  env: Readonly<Record<string, string>>;
}

export interface LimitsConfig {
  total: number;
  /** By repository name; `default` for the others; absent: no limit of its own. */
  perRepo: Readonly<Record<string, number>>;
  perAgent: Readonly<Record<string, number>>;
}

export interface NotifyConfig {
  target:
    | { kind: "url"; url: string; secret: string | null }
    | { kind: "command"; command: readonly [string, ...string[]] };
  on: readonly string[];
}

/** All that the environment and the config file say, validated, with defaults filled in and paths absolute. Durations in ms. */
export interface Config {
  host: string;
  port: number;
  stagerHost: string;
  stagerPort: number;
  stagerUrl: string;
  dataDir: string;
  reposDir: string;
  workspacesDir: string;
  scratchDir: string;
  dbUrl: string;
  dbAuthToken: string | null;
  dbSynchronous: "FULL" | "NORMAL";
  configPath: string;
  logLevel: "trace" | "debug" | "info" | "warn" | "error" | "fatal" | "silent";
  apiToken: string | null;
  stagerToken: string | null;
  standby: boolean;
  leaseTtlMs: number;
  reaperIntervalMs: number;
  reaperGraceMs: number;
  finalizerMaxMs: number;
  launchTimeoutMs: number;
  jobTimeoutMs: number;
  stallTimeoutMs: number;
  killGraceMs: number;
  drainMs: number;
  logMaxBytes: number;
  logKeepBytes: number;
  finalizerLivenessEnabled: boolean;
  stagingRunnerEnabled: boolean;
  stagingDeferDelayMs: number;
  stagingMaxDefers: number;
  stagingDeferMaxMs: number;
  repos: Readonly<Record<string, RepoConfig>>;
  agents: Readonly<Record<string, AgentConfig>>;
  limits: LimitsConfig;
  notify: NotifyConfig | null;
  pipeline: Pipeline;
  /** Where the process kills itself, for the crash harness (`ORCH_FAULT_POINT`); null everywhere else. */
  faultPoint: FaultPoint | null;
  /** A git configuration file that the operator names (`GIT_CONFIG_GLOBAL`), used for fetch, push and ls-remote only. */
  gitNetworkConfig: string | null;
  /** The environment that children may inherit from, read once. */
  parentEnv: Readonly<Record<string, string>>;
}
