import { expect, test } from "vitest";
import { agentEnvironment } from "../../services/scheduler/agent_environment.ts";

test("an agent is told which run of which job of which task it is", () => {
  expect(
    agentEnvironment({
      instanceId: "abc",
      task: { id: 3, workItemId: "ORCH-115", branch: "work/ORCH-115", baseBranch: "main" },
      job: { id: 7, stage: "review", agent: "reviewer", attempt: 2 },
      run: { id: 9 },
      artifactPath: "docs/work-items/ORCH-115/12-review.md",
    }),
  ).toEqual({
    ORCH_INSTANCE_ID: "abc",
    ORCH_WORK_ITEM_ID: "ORCH-115",
    ORCH_TASK_ID: "3",
    ORCH_JOB_ID: "7",
    ORCH_RUN_ID: "9",
    ORCH_STAGE: "review",
    ORCH_AGENT: "reviewer",
    ORCH_ATTEMPT: "2",
    ORCH_BRANCH: "work/ORCH-115",
    ORCH_BASE_BRANCH: "main",
    ORCH_ARTIFACT: "docs/work-items/ORCH-115/12-review.md",
  });
});
