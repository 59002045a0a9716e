import { findStage, type Pipeline } from "@orchestrator/shared/pipeline.ts";
import type { Task } from "@orchestrator/shared/schemas/rows.ts";
import { activateTask } from "@orchestrator/shared/storage/activate_task.ts";
import type { TaskKey } from "@orchestrator/shared/storage/read_task.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";
import { actOnTask, noSuchStage, type TaskActionResult } from "./act_on_task.ts";
import { enqueueStage } from "./enqueue_stage.ts";
import { must } from "./must.ts";

/**
 * Has a blocked task tried again in the stage where it stands: a fresh job, whose attempts, defer markers and bounds begin
 * anew, and no returns. The note goes into the prompt.
 */
export const retryTask = async (
  { storage, pipeline }: { storage: Storage; pipeline: Pipeline },
  key: TaskKey,
  { note }: { note?: string | undefined },
): Promise<TaskActionResult> =>
  actOnTask(storage, key, "retry", async (tx, task) => {
    const stage = findStage(pipeline, task.stage);
    if (!stage) return noSuchStage(task);
    must(await activateTask(tx, task, { returns: 0 }));
    const job = await enqueueStage(tx, task, stage, whyAgain(task, note));
    const detail = { stage: stage.name, by: "person", ...(note === undefined ? {} : { reason: note }) };
    await tx.event("retried", { taskId: task.id, jobId: job.id }, detail);
    return {};
  });

const whyAgain = ({ blockedReason }: Pick<Task, "blockedReason">, note: string | undefined): string =>
  [
    `it was blocked (${blockedReason ?? "no reason was recorded"}), and a person has it tried again.`,
    note === undefined ? "" : `The person's note:\n\n${note}`,
  ]
    .filter((part) => part !== "")
    .join(" ");
