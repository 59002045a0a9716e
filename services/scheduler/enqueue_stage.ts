import type { Stage } from "@orchestrator/shared/pipeline.ts";
import type { Job, Task } from "@orchestrator/shared/schemas/rows.ts";
import { enqueueJob } from "@orchestrator/shared/storage/enqueue_job.ts";
import type { Tx } from "@orchestrator/shared/storage/storage.ts";
import { composeTaskContent } from "./task_content.ts";

/**
 * Puts the fresh job of a stage into the queue, due at once.
 * @param why why the task is in this stage again, for the prompt; null where it came the ordinary way.
 */
export const enqueueStage = (
  tx: Tx,
  task: Pick<Task, "id" | "workItemId" | "title" | "description" | "priority">,
  stage: Stage,
  why: string | null,
): Promise<Job> =>
  enqueueJob(tx, {
    taskId: task.id,
    stage: stage.name,
    agent: stage.agent,
    priority: task.priority,
    taskContent: composeTaskContent(task, why),
    maxAttempts: stage.maxAttempts,
    availableAt: tx.now,
  });
