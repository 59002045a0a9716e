import { systemClock } from "@orchestrator/shared/clock.ts";
import type { Config, RepoConfig } from "@orchestrator/shared/config/config.ts";
import { createGit } from "@orchestrator/shared/git/run_git.ts";
import { type CheckContext, TIMEOUTS_MS } from "../../services/doctor/checks.ts";
import { showFinding } from "../../services/doctor/finding.ts";
import { makeSite, type Site } from "../helpers/scheduler.ts";

/** What the checks are given for a site; `over` changes its configuration. */
export const makeContext = async (
  over: Partial<Config> = {},
  rest: Partial<CheckContext> = {},
): Promise<{ site: Site; context: CheckContext }> => {
  const site = await makeSite(over);
  const { parentEnv, gitNetworkConfig } = site.config;
  const git = createGit({ instanceId: "", parentEnv, networkConfig: gitNetworkConfig });
  const { signal } = new AbortController();
  return {
    site,
    context: { config: site.config, git, clock: systemClock, signal, timeoutsMs: TIMEOUTS_MS, ...rest },
  };
};

/** Findings as a person reads them, without the blanks that align them. */
export const shown = (findings: Parameters<typeof showFinding>[0][]): string[] =>
  findings.map((finding) => showFinding(finding).replaceAll(/ {2,}/g, " "));

export const repoAt = (url: string, over: Partial<RepoConfig> = {}): RepoConfig => ({
  ...{ url, baseBranch: "main", push: true, merge: "none", environment: "shop", plan: "branch" },
  ...over,
});
