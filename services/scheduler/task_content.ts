import { neutralise } from "@orchestrator/shared/defer.ts";
import type { Task } from "@orchestrator/shared/schemas/rows.ts";

/**
 * The `task_content` of a job: what is wanted, and where the job comes from. Text that people or agents wrote is neutralised,
 * so that the defer markers in it can be counted.
 * @param why why the task went back to this stage, or what a person noted; null for a stage entered the ordinary way.
 */
export const composeTaskContent = (
  task: Pick<Task, "workItemId" | "title" | "description">,
  why: string | null,
): string => {
  const parts = [
    `${task.workItemId}: ${task.title}`,
    task.description,
    why === null ? "" : `Why it is here again: ${why}`,
  ];
  return neutralise(parts.filter((part) => part.trim() !== "").join("\n\n"));
};
