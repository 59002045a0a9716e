import { createClient } from "@libsql/client";

const JOBS_PER_TASK = 8;

const STAGES = ["analysis", "architecture", "development", "review", "testing", "deploy-staging", "deploy"];
const AGENTS = ["analyst", "architect", "developer", "reviewer", "tester", "deployer", "deployer"];

const list = (values: readonly string[]): string => `json('${JSON.stringify(values)}')`;
const at = (expression: string): string =>
  `strftime('%Y-%m-%dT%H:%M:%fZ', 1735689600 + (${expression}) * 10, 'unixepoch')`;

/**
 * Fills a database, which has its schema, with work that is finished: `jobs` jobs, eight of a task, each with its run and
 * four events. One task in ten was cancelled in development, the others are done; one job in eight failed.
 */
export const fillHistory = async (path: string, jobs: number): Promise<void> => {
  const tasks = Math.ceil(jobs / JOBS_PER_TASK);
  const client = createClient({ url: `file:${path}`, concurrency: 1 });
  try {
    // Nothing here has to outlive a power cut.
    await client.execute("PRAGMA synchronous = OFF");
    await client.execute("PRAGMA cache_size = -500000");
    for (const statement of statements(tasks, jobs)) await client.execute(statement);
    await client.execute("PRAGMA wal_checkpoint(TRUNCATE)");
  } finally {
    client.close();
  }
};

const statements = (tasks: number, jobs: number): string[] => {
  const count = (n: number): string =>
    `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${n})`;
  const stage = `${list(STAGES)} ->> ((i - 1) % ${JOBS_PER_TASK} % 7)`;
  const agent = `${list(AGENTS)} ->> ((i - 1) % ${JOBS_PER_TASK} % 7)`;
  const taskOf = `1 + (i - 1) / ${JOBS_PER_TASK}`;
  const failed = `i % ${JOBS_PER_TASK} = 4`;
  return [
    `INSERT INTO tasks (id, work_item_id, title, description, repo, branch, base_branch, head, stage, status, priority, returns,
       created_at, updated_at)
     ${count(tasks)} SELECT i, 'OLD-' || i, 'Title of work item ' || i, hex(zeroblob(100)), 'shop', 'work/OLD-' || i, 'main',
       printf('%040x', i), iif(i % 10 = 0, 'development', 'done'), iif(i % 10 = 0, 'cancelled', 'done'), i % 3, 1,
       ${at("i * 8")}, ${at("i * 8 + 8")} FROM n`,
    `INSERT INTO jobs (id, task_id, stage, agent, status, priority, task_content, attempt, max_attempts, available_at, run_id,
       error, created_at, started_at, finished_at)
     ${count(jobs)} SELECT i, ${taskOf}, ${stage}, ${agent}, iif(${failed}, 'failed', 'done'), i % 3,
       'Title of work item ' || i || char(10) || hex(zeroblob(100)), 1, 3, ${at("i")}, i, iif(${failed}, 'exit code 1', NULL),
       ${at("i")}, ${at("i")}, ${at("i + 1")} FROM n`,
    `INSERT INTO agent_runs (id, job_id, task_id, stage, agent, attempt, pid, pid_started, exit_code, outcome, reason, log_path,
       started_at, exited_at, finished_at)
     ${count(jobs)} SELECT i, i, ${taskOf}, ${stage}, ${agent}, 1, 1000 + i % 30000, i, iif(${failed}, 1, 0),
       iif(${failed}, 'failed', 'succeeded'), iif(${failed}, 'exit code 1', NULL), '/data/logs/' || i || '.log',
       ${at("i")}, ${at("i + 1")}, ${at("i + 1")} FROM n`,
    `INSERT INTO task_events (task_id, job_id, run_id, at, kind, detail)
     ${count(jobs)} SELECT ${taskOf}, i, i, ${at("i")}, kind, json_object('stage', ${stage}, 'attempt', 1)
     FROM n, (SELECT 'claimed' AS kind UNION ALL SELECT 'started' UNION ALL SELECT 'exited' UNION ALL SELECT 'advanced')`,
  ];
};
