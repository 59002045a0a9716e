import type { Job, Run, Task, TaskEvent } from "@orchestrator/shared/schemas/rows.ts";
import {
  EVENT_COLUMNS,
  JOB_COLUMNS,
  RUN_COLUMNS,
  TASK_COLUMNS,
  toEvent,
} from "@orchestrator/shared/storage/columns.ts";
import { DatabaseMissingError, openReadOnly } from "@orchestrator/shared/storage/open.ts";
import type { CrashSite } from "./site.ts";

/** All that the database says. Whole only while no scheduler writes. */
export interface Snapshot {
  tasks: Task[];
  jobs: Job[];
  runs: Run[];
  events: TaskEvent[];
  pauses: string[];
  epoch: number;
  instanceId: string;
  /** What SQLite's own check finds; empty where all is well. */
  damage: string[];
}

/** Reads the database as another program would; null where there is none yet. */
export const readSnapshot = async (site: CrashSite): Promise<Snapshot | null> => {
  const reader = await openReadOnly(site.dbUrl, null).catch((error: unknown) => {
    if (error instanceof DatabaseMissingError) return null;
    throw error;
  });
  if (reader === null) return null;
  try {
    const [{ n } = { n: 0 }] = await reader.query<{ n: number }>(
      "SELECT count(*) AS n FROM sqlite_schema WHERE name = 'scheduler_lease'",
    );
    const [lease] =
      n === 0 ? [] : await reader.query<{ epoch: number; instanceId: string }>("SELECT * FROM scheduler_lease");
    if (!lease) return null;
    const events = await reader.query<Parameters<typeof toEvent>[0]>(
      `SELECT ${EVENT_COLUMNS} FROM task_events ORDER BY id`,
    );
    const checks = await reader.query<{ integrityCheck: string }>("PRAGMA integrity_check");
    const orphans = await reader.query<{ table: string }>("PRAGMA foreign_key_check");
    return {
      tasks: await reader.query<Task>(`SELECT ${TASK_COLUMNS} FROM tasks ORDER BY id`),
      jobs: await reader.query<Job>(`SELECT ${JOB_COLUMNS} FROM jobs ORDER BY id`),
      runs: await reader.query<Run>(`SELECT ${RUN_COLUMNS} FROM agent_runs ORDER BY id`),
      events: events.map(toEvent),
      pauses: (await reader.query<{ what: string }>("SELECT what FROM queue_state")).map(({ what }) => what),
      epoch: lease.epoch,
      instanceId: lease.instanceId,
      damage: [
        ...checks.map((row) => row.integrityCheck).filter((text) => text !== "ok"),
        ...orphans.map(({ table }) => `a row of ${table} points to nothing`),
      ],
    };
  } finally {
    await reader.close();
  }
};
