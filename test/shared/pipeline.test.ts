import { isStagingRunners } from "@orchestrator/shared/pipeline.ts";
import { expect, test } from "vitest";

test.each<[stage: string, agent: string, stagingRunnerEnabled: boolean, expected: boolean]>([
  ["deploy-staging", "deployer", true, true],
  ["deploy-staging", "deployer", false, false],
  ["deploy-staging", "tester", true, false],
  ["deploy", "deployer", true, false],
  ["testing", "tester", true, false],
])(
  "a job of %s for %s, with the staging runner enabled %s, is the staging runner's: %s",
  (stage, agent, on, expected) => {
    expect(isStagingRunners({ stage, agent }, { stagingRunnerEnabled: on })).toBe(expected);
  },
);
