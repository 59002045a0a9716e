/** The variables that say where and how the services run. */
export const KNOWN_VARIABLES = [
  "ORCH_HOST",
  "ORCH_PORT",
  "ORCH_STAGER_HOST",
  "ORCH_STAGER_PORT",
  "ORCH_STAGER_URL",
  "ORCH_DATA_DIR",
  "ORCH_REPOS_DIR",
  "ORCH_WORKSPACES_DIR",
  "ORCH_SCRATCH_DIR",
  "ORCH_DB_URL",
  "ORCH_DB_AUTH_TOKEN",
  "ORCH_DB_SYNCHRONOUS",
  "ORCH_CONFIG",
  "ORCH_LOG_LEVEL",
  "ORCH_API_TOKEN",
  "ORCH_STAGER_TOKEN",
  "ORCH_MAKE_TOKENS",
  "ORCH_STANDBY",
  "ORCH_LEASE_TTL_MS",
  "ORCH_MAX_CONCURRENT_JOBS",
  "ORCH_REAPER_INTERVAL_MS",
  "ORCH_REAPER_GRACE_MS",
  "ORCH_FINALIZER_MAX_MS",
  "ORCH_FINALIZER_LIVENESS_ENABLED",
  "ORCH_LAUNCH_TIMEOUT_MS",
  "ORCH_JOB_TIMEOUT_MS",
  "ORCH_STALL_TIMEOUT_MS",
  "ORCH_KILL_GRACE_MS",
  "ORCH_DRAIN_MS",
  "ORCH_LOG_KEEP_BYTES",
  "ORCH_LOG_MAX_BYTES",
  "ORCH_FAULT_POINT",
  "ORCH_STAGING_RUNNER_ENABLED",
  "ORCH_STAGING_DEFER_DELAY_MS",
  "ORCH_STAGING_MAX_DEFERS",
  "ORCH_STAGING_DEFER_MAX_MS",
] as const;

/** What agents and staging steps are given: a service that one of them starts inherits it, and it means nothing there. */
const OF_CHILDREN: ReadonlySet<string> = new Set([
  "ORCH_INSTANCE_ID",
  "ORCH_WORK_ITEM_ID",
  "ORCH_TASK_ID",
  "ORCH_JOB_ID",
  "ORCH_RUN_ID",
  "ORCH_STAGE",
  "ORCH_AGENT",
  "ORCH_ATTEMPT",
  "ORCH_BRANCH",
  "ORCH_BASE_BRANCH",
  "ORCH_ARTIFACT",
  "ORCH_COMMIT",
  "ORCH_CACHE_DIR",
]);

const MAX_TYPOS = 3;

/** The names that begin with `ORCH_` and mean nothing, each with the known one that it is a likely mistyping of. */
export const unknownVariables = (names: readonly string[]): { name: string; nearest: string | null }[] => {
  const known: ReadonlySet<string> = new Set(KNOWN_VARIABLES);
  return names
    .filter((name) => name.startsWith("ORCH_") && !known.has(name) && !OF_CHILDREN.has(name))
    .sort()
    .map((name) => {
      const [best] = KNOWN_VARIABLES.map((candidate) => ({ candidate, typos: editDistance(name, candidate) })).sort(
        (a, b) => a.typos - b.typos,
      );
      return { name, nearest: best !== undefined && best.typos <= MAX_TYPOS ? best.candidate : null };
    });
};

/** How many characters must be put in, left out or replaced to get from one name to the other. */
const editDistance = (from: string, to: string): number => {
  let previous = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let i = 1; i <= from.length; i++) {
    const current = [i];
    for (let j = 1; j <= to.length; j++) {
      const replaced = previous[j - 1]! + (from[i - 1] === to[j - 1] ? 0 : 1);
      current.push(Math.min(replaced, previous[j]! + 1, current[j - 1]! + 1));
    }
    previous = current;
  }
  return previous[to.length]!;
};
