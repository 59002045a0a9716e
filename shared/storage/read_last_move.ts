import type { EventDetail } from "../schemas/rows.ts";
import type { Tx } from "./tx.ts";

/** How a task came to the stage where it stands; null where it was made there. */
export const readLastMove = async (
  tx: Pick<Tx, "query">,
  taskId: number,
): Promise<{ kind: "advanced" | "returned"; detail: EventDetail } | null> => {
  const [row] = await tx.query<{ kind: "advanced" | "returned"; detail: string }>(
    `SELECT kind, detail FROM task_events WHERE task_id = ? AND kind IN ('advanced', 'returned')
     ORDER BY id DESC LIMIT 1`,
    [taskId],
  );
  return row ? { kind: row.kind, detail: JSON.parse(row.detail) as EventDetail } : null;
};
