import { loadConfig } from "@orchestrator/shared/config/load_config.ts";
import { DEFAULT_PIPELINE } from "@orchestrator/shared/pipeline.ts";
import { describe, expect, test } from "vitest";
import { configOf, faultsOf, warningsOf } from "./config_folder.ts";

type Env = Record<string, string | undefined>;

const load = (env: Env, service: "scheduler" | "stager" = "scheduler") =>
  loadConfig(env, { cwd: "/nowhere/at/all", service });

test("without any setting everything has its default", () => {
  expect(configOf(load({}))).toEqual({
    host: "127.0.0.1",
    port: 8080,
    stagerHost: "127.0.0.1",
    stagerPort: 8081,
    stagerUrl: "http://127.0.0.1:8081",
    dataDir: "/nowhere/at/all/data",
    reposDir: "/nowhere/at/all/data/repos",
    workspacesDir: "/nowhere/at/all/data/workspaces",
    scratchDir: "/nowhere/at/all/data/scratch",
    dbUrl: "file:/nowhere/at/all/data/orchestrator.db",
    dbAuthToken: null,
    dbSynchronous: "FULL",
    configPath: "/nowhere/at/all/data/orchestrator.yaml",
    logLevel: "info",
    apiToken: null,
    stagerToken: null,
    standby: false,
    leaseTtlMs: 15_000,
    reaperIntervalMs: 30_000,
    reaperGraceMs: 60_000,
    finalizerMaxMs: 900_000,
    launchTimeoutMs: 900_000,
    jobTimeoutMs: 7_200_000,
    stallTimeoutMs: 1_800_000,
    killGraceMs: 10_000,
    drainMs: 10_000,
    logMaxBytes: 33_554_432,
    logKeepBytes: 8_589_934_592,
    finalizerLivenessEnabled: true,
    stagingRunnerEnabled: true,
    stagingDeferDelayMs: 30_000,
    stagingMaxDefers: 10,
    stagingDeferMaxMs: 21_600_000,
    faultPoint: null,
    gitNetworkConfig: null,
    repos: {},
    agents: {},
    limits: { total: 4, perRepo: {}, perAgent: {} },
    notify: null,
    pipeline: DEFAULT_PIPELINE,
    parentEnv: {},
  });
});

describe("what is set is taken", () => {
  test.each<[env: Env, expected: Record<string, unknown>]>([
    [{ ORCH_FAULT_POINT: "push.after" }, { faultPoint: { name: "push.after", nth: 1 } }],
    [{ ORCH_FAULT_POINT: "step.before:12" }, { faultPoint: { name: "step.before", nth: 12 } }],
    [{ ORCH_HOST: "localhost" }, { host: "localhost" }],
    [{ ORCH_HOST: "::1" }, { host: "::1" }],
    [{ ORCH_PORT: "0" }, { port: 0 }],
    [{ ORCH_PORT: "65535" }, { port: 65_535 }],
    [{ ORCH_STAGER_PORT: "9000" }, { stagerPort: 9000, stagerUrl: "http://127.0.0.1:9000" }],
    [{ ORCH_STAGER_HOST: "stager" }, { stagerHost: "stager", stagerUrl: "http://stager:8081" }],
    [{ ORCH_STAGER_HOST: "0.0.0.0" }, { stagerHost: "0.0.0.0", stagerUrl: "http://127.0.0.1:8081" }],
    [{ ORCH_STAGER_HOST: "::" }, { stagerUrl: "http://[::1]:8081" }],
    [{ ORCH_STAGER_HOST: "fe80::1" }, { stagerUrl: "http://[fe80::1]:8081" }],
    [{ ORCH_STAGER_URL: "https://stager.example/base/" }, { stagerUrl: "https://stager.example/base" }],
    [{ ORCH_STAGER_PORT: "0", ORCH_STAGER_URL: "http://127.0.0.1:9" }, { stagerUrl: "http://127.0.0.1:9" }],
    [{ ORCH_STAGER_PORT: "0", ORCH_STAGING_RUNNER_ENABLED: "false" }, { stagerPort: 0 }],
    [
      { ORCH_DATA_DIR: "/var/lib/orch" },
      {
        dataDir: "/var/lib/orch",
        reposDir: "/var/lib/orch/repos",
        dbUrl: "file:/var/lib/orch/orchestrator.db",
        configPath: "/var/lib/orch/orchestrator.yaml",
      },
    ],
    [{ ORCH_DATA_DIR: "../d" }, { dataDir: "/nowhere/at/d", workspacesDir: "/nowhere/at/d/workspaces" }],
    [
      { ORCH_REPOS_DIR: "r", ORCH_SCRATCH_DIR: "/s" },
      { reposDir: "/nowhere/at/all/r", scratchDir: "/s" },
    ],
    [{ ORCH_DB_URL: "file:x/y.db" }, { dbUrl: "file:/nowhere/at/all/x/y.db" }],
    [{ ORCH_DB_URL: "file:/x/y.db" }, { dbUrl: "file:/x/y.db" }],
    [{ ORCH_DB_URL: "file:///x/y z.db" }, { dbUrl: "file:/x/y z.db" }],
    [{ ORCH_DB_URL: "http://db:8080" }, { dbUrl: "http://db:8080" }],
    [
      { ORCH_DB_URL: "libsql://db.example?tls=0", ORCH_DB_AUTH_TOKEN: "a.b-c" },
      { dbUrl: "libsql://db.example?tls=0", dbAuthToken: "a.b-c" },
    ],
    [{ ORCH_DB_SYNCHRONOUS: "NORMAL" }, { dbSynchronous: "NORMAL" }],
    [{ ORCH_LOG_LEVEL: "silent" }, { logLevel: "silent" }],
    [
      { ORCH_API_TOKEN: "t", ORCH_STAGER_TOKEN: "s" },
      { apiToken: "t", stagerToken: "s" },
    ],
    [{ ORCH_STANDBY: "true" }, { standby: true }],
    [{ ORCH_STANDBY: "false" }, { standby: false }],
    [{ ORCH_STALL_TIMEOUT_MS: "0" }, { stallTimeoutMs: 0 }],
    [
      { ORCH_REAPER_INTERVAL_MS: "50", ORCH_REAPER_GRACE_MS: "0" },
      { reaperIntervalMs: 50, reaperGraceMs: 0 },
    ],
    [{ ORCH_JOB_TIMEOUT_MS: "2147483647" }, { jobTimeoutMs: 2_147_483_647 }],
    [{ ORCH_STAGING_MAX_DEFERS: "0" }, { stagingMaxDefers: 0 }],
    [
      { ORCH_STAGING_DEFER_DELAY_MS: "1", ORCH_STAGING_DEFER_MAX_MS: "2" },
      { stagingDeferDelayMs: 1, stagingDeferMaxMs: 2 },
    ],
    [{ ORCH_LOG_MAX_BYTES: "65536" }, { logMaxBytes: 65_536 }],
    [{ ORCH_LOG_KEEP_BYTES: "1048576" }, { logKeepBytes: 1_048_576 }],
    [{ ORCH_FINALIZER_LIVENESS_ENABLED: "false" }, { finalizerLivenessEnabled: false }],
    [{ ORCH_MAX_CONCURRENT_JOBS: "7" }, { limits: { total: 7, perRepo: {}, perAgent: {} } }],
    [{ GIT_CONFIG_GLOBAL: "git.conf" }, { gitNetworkConfig: "/nowhere/at/all/git.conf" }],
    // A variable set to nothing is what a compose file makes of one that is not set.
    [
      { ORCH_PORT: "", ORCH_API_TOKEN: "", ORCH_CONFIG: "", GIT_CONFIG_GLOBAL: "" },
      { port: 8080, apiToken: null },
    ],
    // What an agent is given means nothing to a service that the agent starts.
    [{ ORCH_RUN_ID: "9", ORCH_INSTANCE_ID: "x", ORCH_CACHE_DIR: "/c" }, { port: 8080 }],
  ])("%j", (env, expected) => {
    expect(configOf(load(env))).toMatchObject(expected);
  });

  test("children may inherit everything but the orchestrator's own variables", () => {
    const env = { PATH: "/bin", HOME: "/h", ORCH_API_TOKEN: "t", ORCH_PORT: "1", EMPTY: "", UNSET: undefined };
    expect(configOf(load(env)).parentEnv).toEqual({ PATH: "/bin", HOME: "/h", EMPTY: "" });
  });
});

const URL_ACCEPTED =
  "an http:// or https:// URL without user, password, query and fragment, such as http://127.0.0.1:8081";
const DB_ACCEPTED =
  "file:<path> (without '%', '?' and '#'), or an http://, https:// or libsql:// URL without user, password and token";
const HOST_ACCEPTED = "an IP address or a host name, without port or brackets";
const TOKEN_ACCEPTED = "a token of printable ASCII characters without blanks (not shown here)";
const HIDDEN = "a text (not shown here)";
const PORT = "a whole number from 0 to 65535";

describe("what is wrong is said in one line", () => {
  test.each<[name: string, value: string, found: string, accepted: string]>([
    ["ORCH_PORT", "abc", '"abc"', PORT],
    ["ORCH_PORT", "65536", '"65536"', PORT],
    ["ORCH_PORT", "-1", '"-1"', PORT],
    ["ORCH_PORT", "1e3", '"1e3"', PORT],
    ["ORCH_PORT", "0x50", '"0x50"', PORT],
    ["ORCH_PORT", "80.0", '"80.0"', PORT],
    ["ORCH_PORT", "+80", '"+80"', PORT],
    ["ORCH_PORT", "080", '"080"', PORT],
    ["ORCH_PORT", " 80", '" 80"', PORT],
    ["ORCH_PORT", "80\n", '"80\\n"', PORT],
    ["ORCH_PORT", "NaN", '"NaN"', PORT],
    ["ORCH_PORT", "Infinity", '"Infinity"', PORT],
    ["ORCH_PORT", "٨٠", '"٨٠"', PORT],
    ["ORCH_STAGER_PORT", "99999999999999999999", '"99999999999999999999"', PORT],
    ["ORCH_MAX_CONCURRENT_JOBS", "0", '"0"', "a whole number from 1 to 1000"],
    ["ORCH_REAPER_INTERVAL_MS", "0", '"0"', "a whole number from 10 to 2147483647"],
    ["ORCH_REAPER_GRACE_MS", "1m", '"1m"', "a whole number from 0 to 2147483647"],
    ["ORCH_FINALIZER_MAX_MS", "0", '"0"', "a whole number from 1 to 2147483647"],
    // A timer of 2^31 ms would fire at once.
    ["ORCH_JOB_TIMEOUT_MS", "2147483648", '"2147483648"', "a whole number from 1 to 2147483647"],
    ["ORCH_LAUNCH_TIMEOUT_MS", "0", '"0"', "a whole number from 1 to 2147483647"],
    ["ORCH_STALL_TIMEOUT_MS", "off", '"off"', "a whole number from 0 to 2147483647"],
    ["ORCH_KILL_GRACE_MS", "10s", '"10s"', "a whole number from 0 to 2147483647"],
    ["ORCH_DRAIN_MS", "-5", '"-5"', "a whole number from 0 to 2147483647"],
    ["ORCH_LEASE_TTL_MS", "5", '"5"', "a whole number from 100 to 3600000"],
    ["ORCH_LOG_MAX_BYTES", "32MiB", '"32MiB"', "a whole number from 1024 to 10737418240"],
    ["ORCH_LOG_KEEP_BYTES", "0", '"0"', "a whole number from 1048576 to 1125899906842624"],
    ["ORCH_STAGING_MAX_DEFERS", "1001", '"1001"', "a whole number from 0 to 1000"],
    ["ORCH_STANDBY", "yes", '"yes"', "one of true, false"],
    ["ORCH_STAGING_RUNNER_ENABLED", "TRUE", '"TRUE"', "one of true, false"],
    ["ORCH_FINALIZER_LIVENESS_ENABLED", "0", '"0"', "one of true, false"],
    ["ORCH_DB_SYNCHRONOUS", "OFF", '"OFF"', "one of FULL, NORMAL"],
    ["ORCH_LOG_LEVEL", "verbose", '"verbose"', "one of trace, debug, info, warn, error, fatal, silent"],
    ["ORCH_HOST", "http://127.0.0.1", '"http://127.0.0.1"', HOST_ACCEPTED],
    ["ORCH_HOST", "127.0.0.1:80", '"127.0.0.1:80"', HOST_ACCEPTED],
    ["ORCH_HOST", "[::1]", '"[::1]"', HOST_ACCEPTED],
    ["ORCH_HOST", "127.0.0.256", '"127.0.0.256"', HOST_ACCEPTED],
    ["ORCH_STAGER_HOST", "a b", '"a b"', HOST_ACCEPTED],
    ["ORCH_STAGER_URL", "127.0.0.1:8081", HIDDEN, URL_ACCEPTED],
    ["ORCH_STAGER_URL", "ftp://hunter2", HIDDEN, URL_ACCEPTED],
    ["ORCH_STAGER_URL", "http://me:hunter2@stager", HIDDEN, URL_ACCEPTED],
    ["ORCH_STAGER_URL", "http://stager/?token=hunter2", HIDDEN, URL_ACCEPTED],
    ["ORCH_STAGER_URL", "http://stager/base?", HIDDEN, URL_ACCEPTED],
    ["ORCH_STAGER_URL", "http://stager/#", HIDDEN, URL_ACCEPTED],
    ["ORCH_STAGER_URL", "http://127.0.0.1:0", HIDDEN, URL_ACCEPTED],
    ["ORCH_DB_URL", ":memory:", HIDDEN, DB_ACCEPTED],
    ["ORCH_DB_URL", "file::memory:", HIDDEN, DB_ACCEPTED],
    ["ORCH_DB_URL", "/x/y.db", HIDDEN, DB_ACCEPTED],
    ["ORCH_DB_URL", "file:", HIDDEN, DB_ACCEPTED],
    ["ORCH_DB_URL", "file:/x/", HIDDEN, DB_ACCEPTED],
    ["ORCH_DB_URL", "file:x.db?mode=ro", HIDDEN, DB_ACCEPTED],
    ["ORCH_DB_URL", "file://host/x.db", HIDDEN, DB_ACCEPTED],
    ["ORCH_DB_URL", "postgres://me:hunter2@db", HIDDEN, DB_ACCEPTED],
    ["ORCH_DB_URL", "libsql://db?authToken=hunter2", HIDDEN, DB_ACCEPTED],
    ["ORCH_DB_URL", "https://me:hunter2@db", HIDDEN, DB_ACCEPTED],
    ["ORCH_DATA_DIR", "a\nb", '"a\\nb"', "a path"],
    ["ORCH_API_TOKEN", "hunter2 ", HIDDEN, TOKEN_ACCEPTED],
    ["ORCH_STAGER_TOKEN", "hunter2\n", HIDDEN, TOKEN_ACCEPTED],
    ["ORCH_DB_AUTH_TOKEN", "hünter2", HIDDEN, TOKEN_ACCEPTED],
  ])("%s=%j", (name, value, found, accepted) => {
    const faults = faultsOf(load({ [name]: value }));
    expect(faults).toEqual([`${name}: found ${found}, accepted: ${accepted}`]);
    expect(faults.join()).not.toMatch(/hunter2|hünter2/);
  });

  test.each([
    ["ORCH_DATADIR", "ORCH_DATA_DIR"],
    ["ORCH_REAPER_INTERVALL_MS", "ORCH_REAPER_INTERVAL_MS"],
    ["ORCH_PROT", "ORCH_PORT"],
  ])("the unknown variable %s", (name, nearest) => {
    expect(faultsOf(load({ [name]: "1" }))).toEqual([`${name}: unknown variable, accepted: ${nearest}`]);
  });

  test("an unknown variable that is like none gets the whole list", () => {
    expect(faultsOf(load({ ORCH_ANYTHING_AT_ALL: "1" }))[0]).toMatch(
      /^ORCH_ANYTHING_AT_ALL: unknown variable, accepted: ORCH_HOST, ORCH_PORT, .*ORCH_STAGING_DEFER_MAX_MS$/,
    );
  });

  test("a long value is cut", () => {
    expect(faultsOf(load({ ORCH_PORT: "9".repeat(500) }))).toEqual([
      `ORCH_PORT: found "${"9".repeat(60)}…", accepted: ${PORT}`,
    ]);
  });

  test("all of it at once", () => {
    const faults = faultsOf(
      load({ ORCH_PORT: "x", ORCH_STANDBY: "x", ORCH_DB_URL: "x", ORCH_TYPO_: "x", ORCH_HOST: "a b" }),
    );
    expect(faults.map((fault) => fault.slice(0, fault.indexOf(":")))).toEqual([
      "ORCH_TYPO_",
      "ORCH_HOST",
      "ORCH_PORT",
      "ORCH_DB_URL",
      "ORCH_STANDBY",
    ]);
  });

  test("a data directory that no URL of a database can name", () => {
    expect(faultsOf(load({ ORCH_DATA_DIR: "/a%20b" }))).toEqual([
      "ORCH_DATA_DIR: found a path with '%', '?' or '#', accepted: a path without them",
    ]);
    expect(configOf(load({ ORCH_DATA_DIR: "/a%20b", ORCH_DB_URL: "file:/x.db" })).dbUrl).toBe("file:/x.db");
  });

  test("a stager on a port that nobody knows", () => {
    expect(faultsOf(load({ ORCH_STAGER_PORT: "0" }))).toEqual([
      "ORCH_STAGER_URL: missing, accepted: the stager's URL, since ORCH_STAGER_PORT is 0",
    ]);
    expect(configOf(load({ ORCH_STAGER_PORT: "0" }, "stager")).stagerPort).toBe(0);
  });
});

describe("an address that others can reach needs tokens", () => {
  const missing = (token: string, host: string, value: string): string =>
    `${token}: missing, accepted: a token, since ${host} is ${value}, which others can reach (127.0.0.1 needs none)`;

  test.each(["0.0.0.0", "::", "192.168.1.5", "orchestrator.example", "128.0.0.1", "::2"])("scheduler on %s", (host) => {
    expect(faultsOf(load({ ORCH_HOST: host }))).toEqual([
      missing("ORCH_API_TOKEN", "ORCH_HOST", host),
      missing("ORCH_STAGER_TOKEN", "ORCH_HOST", host),
    ]);
    expect(faultsOf(load({ ORCH_HOST: host, ORCH_API_TOKEN: "a" }))).toEqual([
      missing("ORCH_STAGER_TOKEN", "ORCH_HOST", host),
    ]);
    expect(load({ ORCH_HOST: host, ORCH_API_TOKEN: "a", ORCH_STAGER_TOKEN: "b" }).kind).toBe("ok");
  });

  test("stager: its own token and its own address", () => {
    expect(faultsOf(load({ ORCH_STAGER_HOST: "0.0.0.0" }, "stager"))).toEqual([
      missing("ORCH_STAGER_TOKEN", "ORCH_STAGER_HOST", "0.0.0.0"),
    ]);
    expect(load({ ORCH_STAGER_HOST: "0.0.0.0", ORCH_STAGER_TOKEN: "b" }, "stager").kind).toBe("ok");
    expect(load({ ORCH_HOST: "0.0.0.0" }, "stager").kind).toBe("ok");
    expect(load({ ORCH_STAGER_HOST: "0.0.0.0" }, "scheduler").kind).toBe("ok");
  });

  test.each(["127.0.0.1", "127.8.9.10", "::1", "0:0:0:0:0:0:0:1", "localhost", "LOCALHOST", "::ffff:127.0.0.1"])(
    "%s needs none",
    (host) => {
      expect(load({ ORCH_HOST: host }).kind).toBe("ok");
      expect(load({ ORCH_STAGER_HOST: host }, "stager").kind).toBe("ok");
    },
  );
});

test("a start without a config file is warned of what cannot work yet", () => {
  expect(warningsOf(load({}))).toEqual([
    "no repository is configured: name one under repos in /nowhere/at/all/data/orchestrator.yaml",
    "no program is configured for analyst, architect, developer, reviewer, tester, deployer: set agents.default, or each by its name, in /nowhere/at/all/data/orchestrator.yaml",
  ]);
  expect(warningsOf(load({}, "stager"))).toEqual([]);
  expect(warningsOf(load({ ORCH_FINALIZER_LIVENESS_ENABLED: "false" }))).toContain(
    "ORCH_FINALIZER_LIVENESS_ENABLED is false: the reaper may take a job from a finalizer that is at work",
  );
  expect(warningsOf(load({ ORCH_FAULT_POINT: "step.before" }, "stager"))).toEqual([
    "ORCH_FAULT_POINT is set: this process kills itself at step.before, which is meant for tests alone",
  ]);
});
