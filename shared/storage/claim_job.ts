import type { LimitsConfig } from "../config/config.ts";
import { STAGING_STAGE } from "../domain.ts";
import type { Job, Run, Task } from "../schemas/rows.ts";
import { JOB_COLUMNS, TASK_COLUMNS } from "./columns.ts";
import type { Tx } from "./tx.ts";

/** A job that has become `running`, with its task and the run that was written for it. */
export interface Claim {
  job: Job;
  task: Task;
  run: Run;
}

export interface ClaimRules {
  limits: LimitsConfig;
  /** By repository name. Repositories of one environment are staged one at a time. */
  environments: Readonly<Record<string, string>>;
  /** What is paused but may be claimed from this once, to see whether the fault is gone; the same names as in `queue_state`. */
  probes: () => ReadonlySet<string>;
  modelOf: (agent: string) => string | null;
  /** Where the output of a run is kept. */
  logPathOf: (runId: number) => string;
}

interface RunningPlace {
  agent: string;
  repo: string;
  stage: string;
}

/**
 * Takes the best queued job that is due (`priority` high first, then `available_at`, then `id`), within the limits and past
 * nothing that is paused: the job becomes `running`, a run is written, the task is leased to it.
 * @returns null where there is nothing to claim now.
 */
export const claimJob = async (tx: Tx, rules: ClaimRules): Promise<Claim | null> => {
  const running = await tx.query<RunningPlace>(
    "SELECT j.agent, t.repo, j.stage FROM jobs j JOIN tasks t ON t.id = j.task_id WHERE j.status = 'running'",
  );
  if (running.length >= rules.limits.total) return null;
  const probes = rules.probes();
  const rows = await tx.query<{ what: string }>("SELECT what FROM queue_state");
  const paused = new Set(rows.map((row) => row.what).filter((what) => !probes.has(what)));
  if (paused.has("all")) return null;

  const closed = closedPlaces(running, paused, rules);
  // By the index that holds the queue in its order: left alone, the planner would read and sort all of it for each claim.
  const [job] = await tx.query<Job>(
    `SELECT ${JOB_COLUMNS} FROM jobs AS j INDEXED BY jobs_queued
     WHERE j.status = 'queued' AND j.available_at <= ?1
       AND j.agent NOT IN (SELECT value FROM json_each(?2))
       AND NOT EXISTS (
         SELECT 1 FROM tasks t WHERE t.id = j.task_id AND (
           t.repo IN (SELECT value FROM json_each(?3))
           OR (j.stage = '${STAGING_STAGE}' AND t.repo IN (SELECT value FROM json_each(?4)))))
     ORDER BY j.priority DESC, j.available_at, j.id LIMIT 1`,
    [tx.now, JSON.stringify(closed.agents), JSON.stringify(closed.repos), JSON.stringify(closed.stagingRepos)],
  );
  return job ? take(tx, job, rules) : null;
};

const take = async (tx: Tx, job: Job, rules: ClaimRules): Promise<Claim> => {
  const run = await insertRun(tx, job, rules);
  await tx.run("UPDATE jobs SET status = 'running', run_id = ?, started_at = ? WHERE id = ? AND status = 'queued'", [
    run.id,
    tx.now,
    job.id,
  ]);
  const [task] = await tx.query<Task>(
    `UPDATE tasks SET lease_run_id = ?, updated_at = ? WHERE id = ? RETURNING ${TASK_COLUMNS}`,
    [run.id, tx.now, job.taskId],
  );
  tx.jobMoved("queued", "running");
  // Somebody may have set the clock back since the job became due.
  const dueForMs = Math.max(0, Date.parse(tx.now) - Date.parse(job.availableAt));
  const { taskId, agent, stage } = job;
  tx.runBegun({ runId: run.id, taskId, agent, stage, repo: task!.repo, dueForMs });
  await tx.event(
    "claimed",
    { taskId: job.taskId, jobId: job.id, runId: run.id },
    { stage: job.stage, attempt: job.attempt },
  );
  return { job: { ...job, status: "running", runId: run.id, startedAt: tx.now }, task: task!, run };
};

const insertRun = async (tx: Tx, job: Job, { modelOf, logPathOf }: ClaimRules): Promise<Run> => {
  const { id: jobId, taskId, stage, agent, attempt } = job;
  const modelUsed = modelOf(agent);
  const id = await tx.insert(
    `INSERT INTO agent_runs (job_id, task_id, stage, agent, attempt, model_used, started_at)
     VALUES (?, ?, ?, ?, ?, ?, ?)`,
    [jobId, taskId, stage, agent, attempt, modelUsed, tx.now],
  );
  const logPath = logPathOf(id!);
  await tx.run("UPDATE agent_runs SET log_path = ? WHERE id = ?", [logPath, id]);
  return {
    ...{ id: id!, jobId, taskId, stage, agent, attempt, modelUsed, logPath, startedAt: tx.now },
    ...{ pid: null, pidStarted: null, exitCode: null, signal: null, exitedAt: null },
    ...{ outcome: null, outcomeClass: null, reason: null, finishedAt: null },
  };
};

/** Agents and repositories at which nothing more may start now. */
const closedPlaces = (
  running: readonly RunningPlace[],
  paused: ReadonlySet<string>,
  { limits, environments }: ClaimRules,
): { agents: string[]; repos: string[]; stagingRepos: string[] } => {
  const agents = namesPaused(paused, "agent:");
  const repos = namesPaused(paused, "repo:");
  for (const [agent, n] of countBy(running, (place) => place.agent)) {
    if (n >= (limits.perAgent[agent] ?? limits.perAgent.default ?? Number.POSITIVE_INFINITY)) agents.push(agent);
  }
  for (const [repo, n] of countBy(running, (place) => place.repo)) {
    if (n >= (limits.perRepo[repo] ?? limits.perRepo.default ?? Number.POSITIVE_INFINITY)) repos.push(repo);
  }
  const staging = running.filter((place) => place.stage === STAGING_STAGE);
  const taken = new Set(staging.map((place) => environments[place.repo] ?? place.repo));
  const stagingRepos = paused.has("staging")
    ? Object.keys(environments)
    : Object.keys(environments).filter((repo) => taken.has(environments[repo] ?? repo));
  return { agents, repos, stagingRepos };
};

const namesPaused = (paused: ReadonlySet<string>, prefix: string): string[] =>
  [...paused].filter((what) => what.startsWith(prefix)).map((what) => what.slice(prefix.length));

const countBy = <T>(items: readonly T[], key: (item: T) => string): Map<string, number> => {
  const counts = new Map<string, number>();
  for (const item of items) counts.set(key(item), (counts.get(key(item)) ?? 0) + 1);
  return counts;
};
