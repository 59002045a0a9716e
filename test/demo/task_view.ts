import { eventSchema, runSchema, taskSchema } from "@orchestrator/shared/schemas/rows.ts";
import * as v from "valibot";

/** What the demo reads of `GET /tasks/{work_item_id}`. */
export const taskViewSchema = v.object({
  ...taskSchema.entries,
  runs: v.array(runSchema),
  events: v.array(eventSchema),
});
export type TaskView = v.InferOutput<typeof taskViewSchema>;
export type EventRow = TaskView["events"][number];
export type RunRow = TaskView["runs"][number];

/** A task in one of these goes no further by itself. */
const ENDED = ["done", "blocked", "waiting", "cancelled"];
export const hasEnded = (task: TaskView): boolean => ENDED.includes(task.status);

/** The moves from stage to stage, in order, as `from → to`. */
export const stageMoves = (events: readonly EventRow[]): { at: string; from: string; to: string }[] =>
  events
    .filter(({ kind }) => kind === "advanced" || kind === "returned")
    .map(({ at, detail }) => ({ at, from: String(detail["from"]), to: String(detail["to"]) }));
