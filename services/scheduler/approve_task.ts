import { findStage, type Pipeline } from "@orchestrator/shared/pipeline.ts";
import { activateTask } from "@orchestrator/shared/storage/activate_task.ts";
import { readLastMove } from "@orchestrator/shared/storage/read_last_move.ts";
import type { TaskKey } from "@orchestrator/shared/storage/read_task.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";
import type { Tx } from "@orchestrator/shared/storage/tx.ts";
import { actOnTask, noSuchStage, type TaskActionResult } from "./act_on_task.ts";
import { enqueueStage } from "./enqueue_stage.ts";
import { must } from "./must.ts";

/** Lets a waiting task into its stage. The person names the stage: what was approved is what they have looked at. */
export const approveTask = async (
  { storage, pipeline }: { storage: Storage; pipeline: Pipeline },
  key: TaskKey,
  { stage: named }: { stage: string },
): Promise<TaskActionResult> =>
  actOnTask(storage, key, "approve", async (tx, task) => {
    if (task.stage !== named) {
      return {
        kind: "invalid_state",
        detail: `The task is waiting in ${task.stage}, and another stage was to be approved: approve ${task.stage}.`,
      };
    }
    const stage = findStage(pipeline, task.stage);
    if (!stage) return noSuchStage(task);
    const why = await whyItCameBack(tx, task.id);
    must(await activateTask(tx, task, { returns: task.returns }));
    const job = await enqueueStage(tx, task, stage, why);
    await tx.event("approved", { taskId: task.id, jobId: job.id }, { stage: stage.name, by: "person" });
    return {};
  });

/** A task that was sent back to a stage had no job while it waited: the reason stands in its history. */
const whyItCameBack = async (tx: Tx, taskId: number): Promise<string | null> => {
  const move = await readLastMove(tx, taskId);
  const reason = move?.kind === "returned" ? move.detail["reason"] : null;
  return typeof reason === "string" ? reason : null;
};
