import type { Storage } from "./storage.ts";
import type { Tx } from "./tx.ts";

/** What is paused: `all`, `agent:<name>`, `repo:<name>` or `staging`. */
export interface Pause {
  what: string;
  reason: string;
  /** ISO 8601. */
  since: string;
}

/** @returns what is paused, longest first. */
export const readPauses = (storage: Pick<Storage | Tx, "query">): Promise<Pause[]> =>
  storage.query<Pause>("SELECT what, reason, since FROM queue_state ORDER BY since, what");
