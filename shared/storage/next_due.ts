import type { Storage } from "./storage.ts";

// The planner, which knows nothing of how many jobs there are of a status, would go through all that are queued.

/** @returns when the earliest queued job that is not due yet becomes due (ISO 8601), or null where there is none. */
export const nextDue = async (storage: Pick<Storage, "query">, now: string): Promise<string | null> => {
  const [row] = await storage.query<{ availableAt: string | null }>(
    "SELECT min(available_at) AS available_at FROM jobs INDEXED BY jobs_due WHERE status = 'queued' AND available_at > ?",
    [now],
  );
  return row?.availableAt ?? null;
};

/** @returns when the job that has been queued longest was made (ISO 8601), or null where none is queued. */
export const oldestQueued = async (storage: Pick<Storage, "query">): Promise<string | null> => {
  const [row] = await storage.query<{ createdAt: string | null }>(
    "SELECT min(created_at) AS created_at FROM jobs INDEXED BY jobs_queued_since WHERE status = 'queued'",
  );
  return row?.createdAt ?? null;
};
