import type { JobStatus } from "../domain.ts";
import type { Job, Run } from "../schemas/rows.ts";
import { JOB_COLUMNS, RUN_COLUMNS } from "./columns.ts";
import { pageQuery } from "./page_query.ts";
import type { Storage } from "./storage.ts";

export interface JobFilter {
  status?: JobStatus | undefined;
  taskId?: number | undefined;
  /** Only jobs with a smaller id: where the page before this one ended. */
  beforeId?: number | undefined;
  limit: number;
}

/** A page of jobs, newest first. Ids only grow, so a page stays right while jobs come in. */
export const listJobs = (
  storage: Pick<Storage, "query">,
  { status, taskId, beforeId, limit }: JobFilter,
): Promise<Job[]> => {
  // A task has few jobs: the plus keeps the planner from going through all of a status for those of one task.
  const filter = taskId === undefined ? { status } : { task_id: taskId, "+status": status };
  const { sql, args } = pageQuery(JOB_COLUMNS, "jobs", filter, { beforeId, limit });
  return storage.query<Job>(sql, args);
};

/** How many of a job's runs one answer holds; the newest of them. One that waits for the stager has runs without bound. */
const RUNS_LIMIT = 1000;

/** A job with its runs, oldest first, as one moment saw them. */
export const findJob = async (
  storage: Pick<Storage, "snapshot">,
  id: number,
): Promise<{ job: Job; runs: Run[] } | null> => {
  const [jobs, runs] = await storage.snapshot([
    { sql: `SELECT ${JOB_COLUMNS} FROM jobs WHERE id = ?`, args: [id] },
    {
      sql: `SELECT ${RUN_COLUMNS} FROM agent_runs WHERE job_id = ? ORDER BY id DESC LIMIT ${RUNS_LIMIT}`,
      args: [id],
    },
  ]);
  const [job] = jobs as unknown as Job[];
  return job ? { job, runs: (runs as unknown as Run[]).reverse() } : null;
};

/** @returns null where there is no such run. */
export const findRun = async (storage: Pick<Storage, "query">, id: number): Promise<Run | null> => {
  const [run] = await storage.query<Run>(`SELECT ${RUN_COLUMNS} FROM agent_runs WHERE id = ?`, [id]);
  return run ?? null;
};
