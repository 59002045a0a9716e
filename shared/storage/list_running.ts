import type { Job, Run } from "../schemas/rows.ts";
import type { JobHold } from "./end_job.ts";
import type { Storage } from "./storage.ts";

export interface RunningJob
  extends JobHold,
    Pick<Job, "agent" | "stage">,
    Pick<Run, "pidStarted" | "exitCode" | "signal"> {}

/** The jobs that are `running`, with their runs. Costs what is running, not what ever ran. */
export const listRunning = (storage: Pick<Storage, "query">): Promise<RunningJob[]> =>
  storage.query<RunningJob>(
    `SELECT j.id AS job_id, j.run_id, j.task_id, j.agent, j.stage, r.pid_started, r.exit_code, r.signal
     FROM jobs j JOIN agent_runs r ON r.id = j.run_id WHERE j.status = 'running' ORDER BY j.id`,
  );

/** Processes that runs without an outcome have started, as an earlier scheduler left them. */
export const listOpenProcesses = (storage: Pick<Storage, "query">): Promise<{ pid: number; pidStarted: number }[]> =>
  storage.query(
    `SELECT pid, pid_started FROM agent_runs
     WHERE outcome IS NULL AND pid IS NOT NULL AND pid_started IS NOT NULL`,
  );
