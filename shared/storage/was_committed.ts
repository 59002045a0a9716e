import type { TaskEvent } from "../schemas/rows.ts";
import type { SqlTransaction } from "./connection.ts";

/**
 * Whether the transaction that appended these events to the history was committed. Nobody else appends under this epoch, so
 * an id that it gave is there only if it was.
 * @param sql a write transaction: it begins after the one in question has ended, so that a commit that is still on its way
 * to a server cannot come after the look.
 * @returns null where it appended none, and the history cannot tell.
 */
export const wasCommitted = async (
  sql: Pick<SqlTransaction, "query">,
  events: readonly Pick<TaskEvent, "id">[],
): Promise<boolean | null> => {
  const last = events.at(-1);
  if (last === undefined) return null;
  return (await sql.query("SELECT id FROM task_events WHERE id = ?", [last.id])).length > 0;
};
