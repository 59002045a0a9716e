import type { Job, Task } from "../schemas/rows.ts";
import type { StagingRunRequest } from "../schemas/staging_run.ts";
import type { Connection } from "./connection.ts";

/** What the stager reads by itself about the job that it is asked to run. */
export interface StagingJob
  extends Pick<Task, "workItemId" | "repo" | "branch" | "baseBranch" | "head" | "stage">,
    Pick<Job, "taskContent" | "agent"> {
  jobStatus: Job["status"];
  jobRunId: Job["runId"];
  taskStatus: Task["status"];
}

/** @returns null where there is no such job of that task. */
export const readStagingJob = async (
  connection: Pick<Connection, "query">,
  request: Pick<StagingRunRequest, "job_id" | "task_id">,
): Promise<StagingJob | null> => {
  const [row] = await connection.query<StagingJob>(
    `SELECT t.work_item_id, t.repo, t.branch, t.base_branch, t.head, t.stage, t.status AS task_status,
       j.task_content, j.agent, j.status AS job_status, j.run_id AS job_run_id
     FROM jobs j JOIN tasks t ON t.id = j.task_id WHERE j.id = ? AND t.id = ?`,
    [request.job_id, request.task_id],
  );
  return row ?? null;
};

/** @returns the id made once for this database, which every process that works for it carries; null before the first start. */
export const readInstanceId = async (connection: Pick<Connection, "query">): Promise<string | null> => {
  const [row] = await connection.query<{ instanceId: string }>("SELECT instance_id FROM scheduler_lease WHERE id = 1");
  return row?.instanceId ?? null;
};
