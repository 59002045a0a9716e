import type { Clock } from "@orchestrator/shared/clock.ts";
import type { Config } from "@orchestrator/shared/config/config.ts";
import type { Git } from "@orchestrator/shared/git/run_git.ts";
import { checkAgents } from "./check_agents.ts";
import { checkDatabase } from "./check_database.ts";
import { checkDisk } from "./check_disk.ts";
import { checkFolders } from "./check_folders.ts";
import { checkGitProgram } from "./check_git_program.ts";
import { checkNotify } from "./check_notify.ts";
import { checkRepos } from "./check_repos.ts";
import { checkScheduler } from "./check_scheduler.ts";
import { checkStager } from "./check_stager.ts";
import { type Finding, fail } from "./finding.ts";

/** How long each thing is waited for, in ms. */
export interface TimeoutsMs {
  /** An answer of a remote. */
  remote: number;
  /** One commit of a remote. */
  fetch: number;
  /** `--version` of an agent's program. */
  version: number;
  /** An answer of a service. */
  service: number;
}

export const TIMEOUTS_MS: TimeoutsMs = { remote: 20_000, fetch: 60_000, version: 10_000, service: 5_000 };

/** What every check works with. Nothing that a check does is seen by a scheduler or stager that runs. */
export interface CheckContext {
  config: Config;
  git: Git;
  clock: Clock;
  /** Ends what a check has started and waits for. */
  signal: AbortSignal;
  timeoutsMs: TimeoutsMs;
}

export type Check = (context: CheckContext) => Promise<Finding[]>;

/** In the order in which their findings are shown. */
const CHECKS: readonly [name: string, check: Check][] = [
  ["git", checkGitProgram],
  ["folders", checkFolders],
  ["disk", checkDisk],
  ["scheduler", checkScheduler],
  ["database", checkDatabase],
  ["repos", checkRepos],
  ["agents", checkAgents],
  ["stager", checkStager],
  ["notify", checkNotify],
];

/** Starts all checks at once. One that breaks is a finding of its own: the others have something to say all the same. */
export const startChecks = (context: CheckContext): Promise<Finding[]>[] =>
  CHECKS.map(([name, check]) => findings(name, () => check(context)));

const findings = async (name: string, check: () => Promise<Finding[]>): Promise<Finding[]> => {
  try {
    return await check();
  } catch (error) {
    return [fail(name, `this could not be looked at: ${error}`, "see what the message says, or look at it by hand")];
  }
};
