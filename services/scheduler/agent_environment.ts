import type { Job, Run, Task } from "@orchestrator/shared/schemas/rows.ts";

/** What an agent is told about its run, as environment variables; with the first and the run's id it is found again. */
export const agentEnvironment = ({
  instanceId,
  task,
  job,
  run,
  artifactPath,
}: {
  instanceId: string;
  task: Pick<Task, "id" | "workItemId" | "branch" | "baseBranch">;
  job: Pick<Job, "id" | "stage" | "agent" | "attempt">;
  run: Pick<Run, "id">;
  /** Path of the stage's artifact in the workspace. */
  artifactPath: string;
}): Record<string, string> => ({
  ORCH_INSTANCE_ID: instanceId,
  ORCH_WORK_ITEM_ID: task.workItemId,
  ORCH_TASK_ID: String(task.id),
  ORCH_JOB_ID: String(job.id),
  ORCH_RUN_ID: String(run.id),
  ORCH_STAGE: job.stage,
  ORCH_AGENT: job.agent,
  ORCH_ATTEMPT: String(job.attempt),
  ORCH_BRANCH: task.branch,
  ORCH_BASE_BRANCH: task.baseBranch,
  ORCH_ARTIFACT: artifactPath,
});
