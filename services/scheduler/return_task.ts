import { findStage, type Pipeline, type Stage } from "@orchestrator/shared/pipeline.ts";
import type { Task } from "@orchestrator/shared/schemas/rows.ts";
import { activateTask } from "@orchestrator/shared/storage/activate_task.ts";
import type { TaskKey } from "@orchestrator/shared/storage/read_task.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";
import { actOnTask, type Refusal, type TaskActionResult } from "./act_on_task.ts";
import { advanceStage } from "./advance_stage.ts";
import { enqueueStage } from "./enqueue_stage.ts";
import { must } from "./must.ts";

/**
 * Sends a waiting or blocked task back to an earlier stage, with the reason for the prompt. It counts as a return, like a
 * gate's, and is carried out however often the task has gone back: `max_returns` bounds what happens without a person. A task
 * that is past it is blocked at the next gate that turns it down; a retry begins the count anew.
 */
export const returnTask = async (
  { storage, pipeline }: { storage: Storage; pipeline: Pipeline },
  key: TaskKey,
  { to, reason }: { to: string; reason: string },
): Promise<TaskActionResult> =>
  actOnTask(storage, key, "return", async (tx, task) => {
    const stage = findStage(pipeline, to);
    const choice = stagesBefore(pipeline, task);
    if (!stage || !choice.includes(stage)) return notEarlier(task, choice);
    const status = stage.approval ? "waiting" : "active";
    // The compare-and-set of a move wants an active task; nobody sees it between these two statements.
    must(await activateTask(tx, task, { returns: task.returns }));
    const step = {
      taskId: task.id,
      from: task.stage,
      to,
      leaseRunId: null,
      status,
      head: null,
      isReturn: true,
    } as const;
    must(await advanceStage(tx, step));
    const job = stage.approval ? null : await enqueueStage(tx, task, stage, reason);
    await tx.event(
      "returned",
      { taskId: task.id, jobId: job?.id ?? null },
      { from: task.stage, to, reason, by: "person" },
    );
    if (job === null) await tx.event("waiting", { taskId: task.id }, { stage: to });
    return {};
  });

/** The stages before the task's; all of them where its own is no longer in the pipeline. */
const stagesBefore = ({ stages }: Pipeline, task: Pick<Task, "stage">): readonly Stage[] => {
  const at = stages.findIndex(({ name }) => name === task.stage);
  return at === -1 ? stages : stages.slice(0, at);
};

const notEarlier = ({ stage }: Pick<Task, "stage">, choice: readonly Stage[]): Refusal => {
  const message =
    choice.length === 0
      ? `there is no stage before ${stage}, where the task stands`
      : `must be a stage before ${stage}, where the task stands: ${choice.map(({ name }) => name).join(", ")}`;
  return { kind: "invalid", errors: [{ path: "to", message }] };
};
