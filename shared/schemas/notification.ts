import * as v from "valibot";
import { NOTIFY_ON } from "../config/config_schema.ts";
import { eventSchema } from "./rows.ts";

/**
 * What a notification says: the row of the event, and which task it is about. Of the task itself neither title nor
 * description nor content is in it.
 */
export const notificationSchema = v.object({
  /** Which word of `notify.on` it comes by. A stager that cannot be reached comes by `paused`, as the event `requeued`. */
  on: v.picklist(NOTIFY_ON),
  ...eventSchema.entries,
  /** These five are null for what befalls the queue itself. Stage and status are those of the event's moment. */
  work_item_id: v.nullable(v.string()),
  repo: v.nullable(v.string()),
  branch: v.nullable(v.string()),
  stage: v.nullable(v.string()),
  status: v.nullable(v.string()),
  reason: v.nullable(v.string()),
});
export type Notification = v.InferOutput<typeof notificationSchema>;
