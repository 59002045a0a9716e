import { isIP } from "node:net";
import { join, resolve } from "node:path";
import { FAULT_POINT_FORMAT, type FaultPoint, parseFaultPoint } from "../fault_points.ts";
import type { Config } from "./config.ts";
import { MAX_TIMER_MS } from "./config_schema.ts";
import { databaseFileUrl, isRemoteDatabaseUrl } from "./database_url.ts";
import { foundAccepted, showKindOnly, showValue } from "./fault.ts";
import { KNOWN_VARIABLES, unknownVariables } from "./known_variables.ts";
import type { Variables } from "./variables.ts";

/** What the environment alone decides; the rest of `Config` comes from the config file. */
export type EnvironmentConfig = Omit<Config, "repos" | "agents" | "limits" | "notify" | "pipeline" | "parentEnv"> & {
  /** Null where it is not set: then the file's `limits.total` counts. */
  maxConcurrentJobs: number | null;
};

const MAX_LOG_BYTES = 10 * 1024 ** 3;
const MAX_KEPT_LOG_BYTES = 1024 ** 5;
const HOUR_MS = 3_600_000;

/** Reads every `ORCH_` variable, with the contract's defaults. Relative paths are relative to `cwd`. */
export const readEnvironment = (
  variables: Variables,
  env: Readonly<Record<string, string | undefined>>,
  cwd: string,
): EnvironmentConfig => {
  for (const { name, nearest } of unknownVariables(Object.keys(env))) {
    variables.fault(name, `unknown variable, accepted: ${nearest ?? KNOWN_VARIABLES.join(", ")}`);
  }
  const path = (name: string, fallback: string): string =>
    resolve(cwd, variables.text(name, fallback, "a path", isPath));
  const timer = (name: string, fallback: number, min = 0): number => variables.whole(name, fallback, min, MAX_TIMER_MS);

  const dataDir = path("ORCH_DATA_DIR", "data");
  const stagerHost = readHost(variables, "ORCH_STAGER_HOST");
  const stagerPort = variables.whole("ORCH_STAGER_PORT", 8081, 0, 65_535);
  return {
    host: readHost(variables, "ORCH_HOST"),
    // 0 is a free port.
    port: variables.whole("ORCH_PORT", 8080, 0, 65_535),
    stagerHost,
    stagerPort,
    stagerUrl: readStagerUrl(variables) ?? defaultStagerUrl(stagerHost, stagerPort),
    dataDir,
    reposDir: path("ORCH_REPOS_DIR", join(dataDir, "repos")),
    workspacesDir: path("ORCH_WORKSPACES_DIR", join(dataDir, "workspaces")),
    scratchDir: path("ORCH_SCRATCH_DIR", join(dataDir, "scratch")),
    dbUrl: readDatabaseUrl(variables, dataDir, cwd),
    dbAuthToken: readToken(variables, "ORCH_DB_AUTH_TOKEN"),
    dbSynchronous: variables.choice("ORCH_DB_SYNCHRONOUS", "FULL", ["FULL", "NORMAL"]),
    configPath: path("ORCH_CONFIG", join(dataDir, "orchestrator.yaml")),
    logLevel: variables.choice("ORCH_LOG_LEVEL", "info", [
      "trace",
      "debug",
      "info",
      "warn",
      "error",
      "fatal",
      "silent",
    ]),
    apiToken: readToken(variables, "ORCH_API_TOKEN"),
    stagerToken: readToken(variables, "ORCH_STAGER_TOKEN"),
    standby: variables.flag("ORCH_STANDBY", false),
    leaseTtlMs: variables.whole("ORCH_LEASE_TTL_MS", 15_000, 100, HOUR_MS),
    reaperIntervalMs: timer("ORCH_REAPER_INTERVAL_MS", 30_000, 10),
    reaperGraceMs: timer("ORCH_REAPER_GRACE_MS", 60_000),
    finalizerMaxMs: timer("ORCH_FINALIZER_MAX_MS", 900_000, 1),
    launchTimeoutMs: timer("ORCH_LAUNCH_TIMEOUT_MS", 900_000, 1),
    jobTimeoutMs: timer("ORCH_JOB_TIMEOUT_MS", 7_200_000, 1),
    // 0 switches it off.
    stallTimeoutMs: timer("ORCH_STALL_TIMEOUT_MS", 1_800_000),
    killGraceMs: timer("ORCH_KILL_GRACE_MS", 10_000),
    drainMs: timer("ORCH_DRAIN_MS", 10_000),
    logMaxBytes: variables.whole("ORCH_LOG_MAX_BYTES", 32 * 1024 ** 2, 1024, MAX_LOG_BYTES),
    logKeepBytes: variables.whole("ORCH_LOG_KEEP_BYTES", 8 * 1024 ** 3, 1024 ** 2, MAX_KEPT_LOG_BYTES),
    finalizerLivenessEnabled: variables.flag("ORCH_FINALIZER_LIVENESS_ENABLED", true),
    stagingRunnerEnabled: variables.flag("ORCH_STAGING_RUNNER_ENABLED", true),
    stagingDeferDelayMs: timer("ORCH_STAGING_DEFER_DELAY_MS", 30_000),
    stagingMaxDefers: variables.whole("ORCH_STAGING_MAX_DEFERS", 10, 0, 1000),
    stagingDeferMaxMs: timer("ORCH_STAGING_DEFER_MAX_MS", 6 * HOUR_MS),
    faultPoint: readFaultPoint(variables),
    gitNetworkConfig: readOptionalPath(variables, "GIT_CONFIG_GLOBAL", cwd),
    maxConcurrentJobs: variables.wholeOrNull("ORCH_MAX_CONCURRENT_JOBS", 1, 1000),
  };
};

const isPath = (value: string): boolean => !/[\u0000-\u001f\u007f]/.test(value);

const readOptionalPath = (variables: Variables, name: string, cwd: string): string | null => {
  const value = variables.text(name, "", "a path", isPath);
  return value === "" ? null : resolve(cwd, value);
};

const readFaultPoint = (variables: Variables): FaultPoint | null => {
  const value = variables.get("ORCH_FAULT_POINT");
  const point = value === null ? null : parseFaultPoint(value);
  if (value !== null && point === null) {
    variables.fault("ORCH_FAULT_POINT", foundAccepted(showValue(value), FAULT_POINT_FORMAT));
  }
  return point;
};

/** A name as DNS has it; a last label of digits alone would be a mistyped address. */
const isHostName = (value: string): boolean =>
  /^(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9])?)*$/.test(value) &&
  !/(^|\.)[0-9]+$/.test(value);

const readHost = (variables: Variables, name: string): string =>
  variables.text(
    name,
    "127.0.0.1",
    "an IP address or a host name, without port or brackets",
    (value) => isIP(value) !== 0 || isHostName(value),
  );

/** A token goes into an HTTP header: printable characters without blanks. */
const readToken = (variables: Variables, name: string): string | null =>
  variables.secret(name, "a token of printable ASCII characters without blanks (not shown here)", (value) =>
    /^[\x21-\x7e]+$/.test(value),
  );

const readStagerUrl = (variables: Variables): string | null => {
  const url = variables.secret(
    "ORCH_STAGER_URL",
    "an http:// or https:// URL without user, password, query and fragment, such as http://127.0.0.1:8081",
    isServiceUrl,
  );
  return url === null ? null : url.replace(/\/+$/, "");
};

const isServiceUrl = (value: string): boolean => {
  // What is asked for is put behind it: an empty query or fragment would swallow that, and is none to `URL`.
  if (!/^https?:\/\//i.test(value) || /[\s\\?#]/.test(value) || !URL.canParse(value)) return false;
  const { username, password, port } = new URL(value);
  return username === "" && password === "" && port !== "0";
};

/** A stager that listens on every address is reached on this machine's own. */
const defaultStagerUrl = (host: string, port: number): string => {
  const reachable = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host;
  return `http://${isIP(reachable) === 6 ? `[${reachable}]` : reachable}:${port}`;
};

const readDatabaseUrl = (variables: Variables, dataDir: string, cwd: string): string => {
  const value = variables.get("ORCH_DB_URL");
  if (value === null) {
    const url = databaseFileUrl(join(dataDir, "orchestrator.db"), cwd);
    if (url === null)
      variables.fault("ORCH_DATA_DIR", "found a path with '%', '?' or '#', accepted: a path without them");
    return url ?? "";
  }
  if (isRemoteDatabaseUrl(value)) return value;
  const url = value.startsWith("file:") ? databaseFileUrl(value.slice("file:".length), cwd) : null;
  if (url === null) {
    variables.fault(
      "ORCH_DB_URL",
      foundAccepted(
        showKindOnly(value),
        "file:<path> (without '%', '?' and '#'), or an http://, https:// or libsql:// URL without user, password and token",
      ),
    );
  }
  return url ?? "";
};
