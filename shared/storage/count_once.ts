import type { JobStatus } from "../domain.ts";
import type { Storage } from "./storage.ts";
import type { TaskPlace } from "./tally.ts";

/**
 * Counts all jobs and tasks: the one scan of history there is. Made at start, before anything else reads or writes; and again
 * only where a commit is in doubt that moved jobs or tasks and left no event by which it could be found.
 */
export const countOnce = async (storage: Storage): Promise<void> => {
  const [jobs, tasks] = await storage.snapshot([
    { sql: "SELECT status, count(*) AS n FROM jobs GROUP BY status", args: [] },
    { sql: "SELECT stage, status, count(*) AS n FROM tasks GROUP BY stage, status", args: [] },
  ]);
  storage.tally.restore(jobs as { status: JobStatus; n: number }[], tasks as unknown as (TaskPlace & { n: number })[]);
};
