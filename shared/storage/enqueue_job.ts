import type { Job } from "../schemas/rows.ts";
import type { Tx } from "./storage.ts";

export type NewJobRow = Pick<
  Job,
  "taskId" | "stage" | "agent" | "priority" | "taskContent" | "maxAttempts" | "availableAt"
>;

/** Puts one stage of a task into the queue. The database refuses a second active job of the task. */
export const enqueueJob = async (tx: Tx, job: NewJobRow): Promise<Job> => {
  const id = await tx.insert(
    `INSERT INTO jobs (task_id, stage, agent, status, priority, task_content, attempt, max_attempts, available_at, created_at)
     VALUES (?, ?, ?, 'queued', ?, ?, 1, ?, ?, ?)`,
    [job.taskId, job.stage, job.agent, job.priority, job.taskContent, job.maxAttempts, job.availableAt, tx.now],
  );
  tx.jobMoved(null, "queued");
  return {
    ...{ id: id!, taskId: job.taskId, stage: job.stage, agent: job.agent, status: "queued", priority: job.priority },
    ...{ taskContent: job.taskContent, attempt: 1, maxAttempts: job.maxAttempts, availableAt: job.availableAt },
    ...{ runId: null, error: null, createdAt: tx.now, startedAt: null, finishedAt: null },
  };
};
