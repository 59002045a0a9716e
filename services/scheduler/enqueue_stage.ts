import type { Stage } from "@orchestrator/shared/pipeline.ts";
import type { Job, Task } from "@orchestrator/shared/schemas/rows.ts";
import { enqueueJob, type NewJobRow } from "@orchestrator/shared/storage/enqueue_job.ts";
import type { Tx } from "@orchestrator/shared/storage/tx.ts";
import { composeTaskContent } from "./task_content.ts";

type JobsTask = Pick<Task, "id" | "workItemId" | "title" | "description" | "priority">;

/**
 * The fresh job of a stage, due at once.
 * @param why why the task is in this stage again, for the prompt; null where it came the ordinary way.
 */
export const jobOfStage = (tx: Pick<Tx, "now">, task: JobsTask, stage: Stage, why: string | null): NewJobRow => ({
  taskId: task.id,
  stage: stage.name,
  agent: stage.agent,
  priority: task.priority,
  taskContent: composeTaskContent(task, why),
  maxAttempts: stage.maxAttempts,
  availableAt: tx.now,
});

/** Puts the fresh job of a stage into the queue. */
export const enqueueStage = (tx: Tx, task: JobsTask, stage: Stage, why: string | null): Promise<Job> =>
  enqueueJob(tx, jobOfStage(tx, task, stage, why));
