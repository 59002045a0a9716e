import type { Job, Task } from "@orchestrator/shared/schemas/rows.ts";
import { enqueueJob } from "@orchestrator/shared/storage/enqueue_job.ts";
import { insertTask, type NewTaskRow } from "@orchestrator/shared/storage/insert_task.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";

/** Puts a task and its first job into the database. */
export const insertTaskWithJob = async (
  storage: Storage,
  task: Partial<NewTaskRow> & { workItemId: string },
  job: Partial<Pick<Job, "agent" | "priority" | "taskContent" | "maxAttempts" | "availableAt">> = {},
): Promise<{ task: Task; job: Job }> =>
  storage.write(async (tx) => {
    const inserted = await insertTask(tx, {
      title: `Title of ${task.workItemId}`,
      description: "",
      repo: "shop",
      branch: `work/${task.workItemId}`,
      baseBranch: "main",
      priority: 0,
      stage: "analysis",
      status: "active",
      ...task,
    });
    if (inserted.kind !== "inserted") throw new Error(`not inserted: ${inserted.kind}`);
    const made = await enqueueJob(tx, {
      taskId: inserted.task.id,
      stage: inserted.task.stage,
      agent: "analyst",
      priority: inserted.task.priority,
      taskContent: inserted.task.title,
      maxAttempts: 3,
      availableAt: tx.now,
      ...job,
    });
    return { task: inserted.task, job: made };
  });
