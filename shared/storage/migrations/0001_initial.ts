/**
 * The closed lists are written out, as they were when this was released: what is made from lists that can change would make
 * another schema of new databases than of old ones.
 *
 * The partial indexes hold what is under way and nothing of history, so the queries of the dispatcher and the reaper cost
 * the same after a million jobs.
 */
export const initial: readonly string[] = [
  `CREATE TABLE tasks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    work_item_id TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL,
    description TEXT NOT NULL,
    repo TEXT NOT NULL,
    branch TEXT NOT NULL,
    base_branch TEXT NOT NULL,
    head TEXT,
    stage TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('active', 'waiting', 'blocked', 'done', 'cancelled')),
    priority INTEGER NOT NULL,
    returns INTEGER NOT NULL DEFAULT 0,
    lease_run_id INTEGER,
    blocked_reason TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
  ) STRICT`,
  `CREATE UNIQUE INDEX tasks_one_unfinished_per_branch ON tasks (repo, branch)
    WHERE status IN ('active', 'waiting', 'blocked')`,
  `CREATE INDEX tasks_by_status ON tasks (status, id)`,
  `CREATE INDEX tasks_by_stage ON tasks (stage, id)`,
  `CREATE INDEX tasks_by_stage_and_status ON tasks (stage, status, id)`,

  `CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id INTEGER NOT NULL REFERENCES tasks (id),
    stage TEXT NOT NULL,
    agent TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('queued', 'running', 'done', 'failed', 'cancelled')),
    priority INTEGER NOT NULL,
    task_content TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    available_at TEXT NOT NULL,
    run_id INTEGER,
    error TEXT,
    created_at TEXT NOT NULL,
    started_at TEXT,
    finished_at TEXT
  ) STRICT`,
  `CREATE UNIQUE INDEX jobs_one_active_per_task ON jobs (task_id) WHERE status IN ('queued', 'running')`,
  `CREATE INDEX jobs_queued ON jobs (priority DESC, available_at, id) WHERE status = 'queued'`,
  `CREATE INDEX jobs_due ON jobs (available_at) WHERE status = 'queued'`,
  `CREATE INDEX jobs_queued_since ON jobs (created_at) WHERE status = 'queued'`,
  `CREATE INDEX jobs_by_task ON jobs (task_id, id)`,
  `CREATE INDEX jobs_by_status ON jobs (status, id)`,

  `CREATE TABLE agent_runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id INTEGER NOT NULL REFERENCES jobs (id),
    task_id INTEGER NOT NULL REFERENCES tasks (id),
    stage TEXT NOT NULL,
    agent TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    model_used TEXT,
    pid INTEGER,
    pid_started INTEGER,
    exit_code INTEGER,
    signal TEXT,
    outcome TEXT CHECK (outcome IN ('succeeded', 'failed', 'tool_error', 'timed_out', 'stalled', 'cancelled', 'interrupted', 'superseded')),
    outcome_class TEXT,
    reason TEXT,
    log_path TEXT,
    started_at TEXT NOT NULL,
    exited_at TEXT,
    finished_at TEXT
  ) STRICT`,
  `CREATE INDEX agent_runs_by_job ON agent_runs (job_id, id)`,
  `CREATE INDEX agent_runs_by_task ON agent_runs (task_id, id)`,
  `CREATE INDEX agent_runs_open ON agent_runs (id) WHERE outcome IS NULL`,

  `CREATE TABLE task_events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id INTEGER REFERENCES tasks (id),
    job_id INTEGER,
    run_id INTEGER,
    at TEXT NOT NULL,
    kind TEXT NOT NULL,
    detail TEXT NOT NULL CHECK (json_valid(detail))
  ) STRICT`,
  `CREATE INDEX task_events_by_task ON task_events (task_id, id)`,
  `CREATE TRIGGER task_events_are_not_changed BEFORE UPDATE ON task_events
    BEGIN SELECT RAISE(ABORT, 'task_events is append-only'); END`,
  `CREATE TRIGGER task_events_are_not_removed BEFORE DELETE ON task_events
    BEGIN SELECT RAISE(ABORT, 'task_events is append-only'); END`,

  `CREATE TABLE scheduler_lease (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    instance_id TEXT NOT NULL,
    holder TEXT NOT NULL CHECK (json_valid(holder)),
    epoch INTEGER NOT NULL,
    expires_at TEXT NOT NULL
  ) STRICT`,

  `CREATE TABLE queue_state (
    what TEXT PRIMARY KEY,
    reason TEXT NOT NULL,
    since TEXT NOT NULL
  ) STRICT`,
];
