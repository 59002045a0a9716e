import type { InputError } from "@orchestrator/shared/http/problem.ts";
import type { Task } from "@orchestrator/shared/schemas/rows.ts";
import { readTask, type TaskKey } from "@orchestrator/shared/storage/read_task.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";
import type { Tx } from "@orchestrator/shared/storage/tx.ts";
import { type TaskAction, whyNotAllowed } from "./task_actions.ts";

/** Why a person's action on a task was not carried out. Nothing was changed. */
export type Refusal =
  | { kind: "not_found" }
  /** The task's state does not allow it; `detail` says the state and what is allowed. */
  | { kind: "invalid_state"; detail: string }
  | { kind: "invalid"; errors: InputError[] };

export type TaskActionResult = { kind: "ok"; task: Task } | Refusal;

/**
 * Carries out an action of a person in one transaction, in which the task's state is read as well: of two who act at the
 * same time one comes second, and finds the state that the first has left.
 * @param change is called where the state allows the action; it may still refuse, before it writes.
 */
export const actOnTask = <T extends object>(
  storage: Pick<Storage, "write">,
  key: TaskKey,
  action: TaskAction,
  change: (tx: Tx, task: Task) => Promise<T | Refusal>,
): Promise<(T & { kind: "ok"; task: Task }) | Refusal> =>
  storage.write(async (tx) => {
    const task = await readTask(tx, key);
    if (task === null) return { kind: "not_found" };
    const detail = whyNotAllowed(action, task.status);
    if (detail !== null) return { kind: "invalid_state", detail };
    const changed = await change(tx, task);
    if ("kind" in changed) return changed as Refusal;
    const after = await readTask(tx, { id: task.id });
    return { ...changed, kind: "ok", task: after! };
  });

/** The configuration has lost the stage in which the task stands. */
export const noSuchStage = ({ stage, status }: Pick<Task, "stage" | "status">): Refusal => ({
  kind: "invalid_state",
  detail:
    `The task is ${status} in ${stage}, which is no stage of the pipeline any more: put the stage back, ` +
    "return the task to another one, or cancel it.",
});
