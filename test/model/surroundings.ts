import type { Config } from "@orchestrator/shared/config/config.ts";
import { STAGING_STAGE } from "@orchestrator/shared/domain.ts";
import type { Pipeline } from "@orchestrator/shared/pipeline.ts";

const stage = { gate: null, writes: "docs", maxAttempts: 2, approval: false, rerun: true } as const;
const gate = (key: string, onFail: string) => ({ key, pass: ["YES"], fail: ["NO"], onFail });

/**
 * Short, and with each peculiarity that a pipeline can have: stages that wait for a person at the beginning, as the target of
 * a return, and before one that is not run twice; a gate that sends back, and one that blocks.
 */
export const PIPELINE: Pipeline = {
  maxReturns: 2,
  stages: [
    { ...stage, name: "analysis", agent: "analyst", artifact: "01.md", approval: true },
    { ...stage, name: "development", agent: "developer", artifact: "11.md", writes: "code", maxAttempts: 3 },
    { ...stage, name: "review", agent: "reviewer", artifact: "12.md", gate: gate("review", "development") },
    { ...stage, name: STAGING_STAGE, agent: "deployer", artifact: "15.md", gate: gate("staging", "analysis") },
    {
      ...stage,
      ...{ name: "deploy", agent: "deployer", artifact: "16.md", gate: gate("deploy", "blocked") },
      ...{ approval: true, rerun: false },
    },
  ],
};

/** Two repositories that are staged in one environment. */
export const REPOS = ["shop", "mill"] as const;
export type RepoName = (typeof REPOS)[number];

/** Small enough that a few tasks run into every limit. */
export const LIMITS = { total: 4, perRepo: { default: 3, mill: 2 }, perAgent: { developer: 2 } };

const repo = {
  url: "",
  baseBranch: "main",
  push: true,
  merge: "none",
  environment: "staging",
  plan: "branch",
} as const;

/** What the parts under test read of the configuration. */
export const CONFIG = {
  dataDir: "/nowhere",
  reaperGraceMs: 60_000,
  finalizerMaxMs: 900_000,
  launchTimeoutMs: 900_000,
  jobTimeoutMs: 7_200_000,
  stallTimeoutMs: 1_800_000,
  killGraceMs: 0,
  logMaxBytes: 0,
  logKeepBytes: 0,
  finalizerLivenessEnabled: true,
  stagingRunnerEnabled: true,
  stagingDeferDelayMs: 30_000,
  stagingMaxDefers: 3,
  stagingDeferMaxMs: 3_600_000,
  repos: { shop: repo, mill: repo },
  agents: {},
  limits: LIMITS,
  pipeline: PIPELINE,
} as unknown as Config;

/** What stands for chance: the jitter of every delay. */
export const RANDOM = 0.5;
