import { workItemId } from "@orchestrator/shared/schemas/text.ts";
import type { TaskKey } from "@orchestrator/shared/storage/read_task.ts";
import type { DescribeRouteOptions } from "hono-openapi";
import * as v from "valibot";

type Parameters = NonNullable<DescribeRouteOptions["parameters"]>;

/** The id of a row in a path; null for what can be no row's. */
export const rowId = (text: string): number | null =>
  /^\d+$/.test(text) && Number.isSafeInteger(Number(text)) ? Number(text) : null;

/** A task in a path: its id (digits), or its work item's id, which begins with a letter; null for what can be no task's. */
export const taskKey = (text: string): TaskKey | null => {
  const id = rowId(text);
  if (id !== null) return { id };
  return v.is(workItemId, text) ? { workItemId: text } : null;
};

export const TASK_PARAM: Parameters = [
  {
    in: "path",
    name: "task",
    required: true,
    schema: { type: "string" },
    description: "The id (digits) or the work item id.",
    example: "ORCH-115",
  },
];

export const idParam = (description: string, example: number): Parameters => [
  { in: "path", name: "id", required: true, schema: { type: "integer", minimum: 1 }, description, example },
];
