import type { Job } from "../schemas/rows.ts";
import { insertRows } from "./insert_rows.ts";
import type { Tx } from "./tx.ts";

export type NewJobRow = Pick<
  Job,
  "taskId" | "stage" | "agent" | "priority" | "taskContent" | "maxAttempts" | "availableAt"
>;

/** Puts one stage of each task into the queue. The database refuses a second active job of a task. */
export const enqueueJobs = async (tx: Tx, jobs: readonly NewJobRow[]): Promise<Job[]> => {
  const rows = jobs.map((job) => ({
    task_id: job.taskId,
    stage: job.stage,
    agent: job.agent,
    status: "queued",
    priority: job.priority,
    task_content: job.taskContent,
    attempt: 1,
    max_attempts: job.maxAttempts,
    available_at: job.availableAt,
    created_at: tx.now,
  }));
  const ids = await insertRows(tx, "jobs", rows);
  return jobs.map((job, index) => {
    tx.jobMoved(null, "queued");
    return {
      ...{ id: ids[index]!.id, taskId: job.taskId, stage: job.stage, agent: job.agent, status: "queued" },
      ...{ priority: job.priority, taskContent: job.taskContent, attempt: 1, maxAttempts: job.maxAttempts },
      ...{ availableAt: job.availableAt, createdAt: tx.now, startedAt: null, finishedAt: null },
      ...{ runId: null, error: null },
    };
  });
};

/** Puts one stage of a task into the queue. */
export const enqueueJob = async (tx: Tx, job: NewJobRow): Promise<Job> => {
  const [row] = await enqueueJobs(tx, [job]);
  return row!;
};
