import type { TaskEvent } from "../schemas/rows.ts";
import { EVENT_COLUMNS, toEvent } from "./columns.ts";
import type { Storage } from "./storage.ts";

/** The first events after an id, oldest first. */
export const listEventsAfter = async (
  storage: Pick<Storage, "query">,
  id: number,
  limit: number,
): Promise<TaskEvent[]> => {
  const rows = await storage.query<Parameters<typeof toEvent>[0]>(
    `SELECT ${EVENT_COLUMNS} FROM task_events WHERE id > ? ORDER BY id LIMIT ?`,
    [id, limit],
  );
  return rows.map(toEvent);
};

/** The id of the newest event; 0 where there is none. */
export const lastEventId = async (storage: Pick<Storage, "query">): Promise<number> => {
  const [row] = await storage.query<{ id: number | null }>("SELECT max(id) AS id FROM task_events");
  return row?.id ?? 0;
};
