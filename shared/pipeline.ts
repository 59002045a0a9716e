import { DONE_STAGE, STAGING_AGENT, STAGING_STAGE, workItemFolder } from "./domain.ts";

/** What decides whether a stage has passed: one key of its artifact's frontmatter. */
export interface Gate {
  key: string;
  pass: readonly string[];
  fail: readonly string[];
  /** The stage that a failing value sends the task back to, or `blocked`. */
  onFail: string;
}

export interface Stage {
  name: string;
  agent: string;
  /** File name of the artifact in the work item's folder. */
  artifact: string;
  /** Null: a readable artifact is the gate. */
  gate: Gate | null;
  /** `docs`: only the work item's own folder may change; `code`: anything. */
  writes: "docs" | "code";
  maxAttempts: number;
  /** True: the stage is entered `waiting`, without a job, until a person approves. */
  approval: boolean;
  /** False: a run that ended after its start without a verdict is not repeated; the task is blocked. */
  rerun: boolean;
}

export interface Pipeline {
  maxReturns: number;
  stages: readonly Stage[];
}

/** What the staging runner, or an agent in its place, says of the commit that it tested. */
export const STAGING_GATE = {
  key: "staging_status",
  pass: ["SUCCESS"],
  fail: ["FAILED"],
  onFail: "development",
} as const satisfies Gate;

const DEFAULTS = { maxAttempts: 3, approval: false, rerun: true } as const;

export const DEFAULT_PIPELINE: Pipeline = {
  maxReturns: 3,
  stages: [
    { ...DEFAULTS, name: "analysis", agent: "analyst", artifact: "01-requirements.md", gate: null, writes: "docs" },
    {
      ...DEFAULTS,
      name: "architecture",
      agent: "architect",
      artifact: "06-architecture.md",
      gate: null,
      writes: "docs",
    },
    {
      ...DEFAULTS,
      name: "development",
      agent: "developer",
      artifact: "11-development-log.md",
      gate: null,
      writes: "code",
    },
    {
      ...DEFAULTS,
      name: "review",
      agent: "reviewer",
      artifact: "12-review.md",
      gate: { key: "review_status", pass: ["APPROVED"], fail: ["CHANGES_REQUESTED"], onFail: "development" },
      writes: "docs",
    },
    {
      ...DEFAULTS,
      name: "testing",
      agent: "tester",
      artifact: "13-test-report.md",
      gate: { key: "test_status", pass: ["PASSED"], fail: ["FAILED"], onFail: "development" },
      writes: "docs",
    },
    {
      ...DEFAULTS,
      name: STAGING_STAGE,
      agent: STAGING_AGENT,
      artifact: "15-staging-log.md",
      gate: STAGING_GATE,
      writes: "docs",
    },
    {
      ...DEFAULTS,
      name: "deploy",
      agent: "deployer",
      artifact: "16-deploy-log.md",
      gate: { key: "deploy_status", pass: ["SUCCESS"], fail: ["FAILED"], onFail: "blocked" },
      writes: "docs",
      // A deployment that died half way may have happened: a person looks before it is done again.
      rerun: false,
    },
  ],
};

/** The stage of that name, or undefined where the pipeline has none (`done` is not a stage that is worked). */
export const findStage = (pipeline: Pipeline, name: string): Stage | undefined =>
  pipeline.stages.find((stage) => stage.name === name);

/**
 * Whether a job is the staging runner's: of the one stage that it works, for the one agent that it stands in for, and switched
 * on. Every other job is an agent's, those of that stage for another agent and those of that agent in another stage included.
 */
export const isStagingRunners = (
  { stage, agent }: { stage: string; agent: string },
  { stagingRunnerEnabled }: { stagingRunnerEnabled: boolean },
): boolean => stagingRunnerEnabled && stage === STAGING_STAGE && agent === STAGING_AGENT;

/** The name of the stage after `name`; `done` after the last one. */
export const nextStageName = (pipeline: Pipeline, name: string): string => {
  const index = pipeline.stages.findIndex((stage) => stage.name === name);
  return pipeline.stages[index + 1]?.name ?? DONE_STAGE;
};

/** Where the stage's artifact of a work item stands in the repository, as a path with forward slashes. */
export const artifactPath = (stage: Pick<Stage, "artifact">, workItemId: string): string =>
  `${workItemFolder(workItemId)}/${stage.artifact}`;
