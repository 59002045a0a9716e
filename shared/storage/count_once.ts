import type { JobStatus } from "../domain.ts";
import type { Storage } from "./storage.ts";
import type { TaskPlace } from "./tally.ts";

/** Counts all jobs and tasks. The one scan of history there is; made at start, before anything else reads or writes. */
export const countOnce = async (storage: Storage): Promise<void> => {
  const [jobs, tasks] = await storage.snapshot([
    { sql: "SELECT status, count(*) AS n FROM jobs GROUP BY status", args: [] },
    { sql: "SELECT stage, status, count(*) AS n FROM tasks GROUP BY stage, status", args: [] },
  ]);
  storage.tally.restore(jobs as { status: JobStatus; n: number }[], tasks as unknown as (TaskPlace & { n: number })[]);
};
