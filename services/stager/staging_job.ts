import { STAGING_AGENT, STAGING_STAGE } from "@orchestrator/shared/domain.ts";
import type { StagingRunRequest } from "@orchestrator/shared/schemas/staging_run.ts";
import type { StagingJob } from "@orchestrator/shared/storage/read_staging_job.ts";

/** Reads the job that is asked about from the database; null where there is no such job of that task. */
export type ReadJob = (request: StagingRunRequest) => Promise<StagingJob | null>;

/** Why the stager will not run this, or not go on: what was found and what was expected; null where it is this run's job. */
export const whyNotThisRun = (job: StagingJob | null, request: StagingRunRequest): string | null => {
  const { job_id, run_id, task_id } = request;
  if (job === null) return `there is no job ${job_id} of a task ${task_id}`;
  if (job.jobStatus !== "running") return `job ${job_id} is ${job.jobStatus}, expected running`;
  if (job.jobRunId !== run_id) return `job ${job_id} belongs to run ${job.jobRunId ?? "none"}, not to run ${run_id}`;
  if (job.agent !== STAGING_AGENT) return `job ${job_id} is for ${job.agent}, expected ${STAGING_AGENT}`;
  if (job.stage !== STAGING_STAGE) return `task ${task_id} is in ${job.stage}, expected ${STAGING_STAGE}`;
  return null;
};
