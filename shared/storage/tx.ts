import type { EventKind, JobStatus } from "../domain.ts";
import type { EventDetail, TaskEvent } from "../schemas/rows.ts";
import type { BegunRun, EndedRun } from "./committed.ts";
import type { Row, SqlTransaction, SqlValue } from "./connection.ts";
import { insertRows } from "./insert_rows.ts";
import type { Move, TaskPlace } from "./tally.ts";

/** One open write transaction, begun under the fence. What it noted takes effect in memory only after the commit. */
export class Tx {
  readonly #sql: SqlTransaction;
  readonly #now: string;
  readonly moves: Move[] = [];
  readonly events: TaskEvent[] = [];
  readonly begun: BegunRun[] = [];
  readonly ended: EndedRun[] = [];
  #opened = false;

  constructor(sql: SqlTransaction, now: string) {
    this.#sql = sql;
    this.#now = now;
  }

  /** The time of this transaction, as the tables hold it. */
  get now(): string {
    return this.#now;
  }

  query<T extends object = Row>(sql: string, args: SqlValue[] = []): Promise<T[]> {
    return this.#sql.query<T>(sql, args);
  }

  run(sql: string, args: SqlValue[] = []): Promise<number> {
    return this.#sql.run(sql, args);
  }

  insert(sql: string, args: SqlValue[] = []): Promise<number | null> {
    return this.#sql.insert(sql, args);
  }

  jobMoved(from: JobStatus | null, to: JobStatus): void {
    this.moves.push({ of: "job", from, to });
  }

  taskMoved(from: TaskPlace | null, to: TaskPlace): void {
    this.moves.push({ of: "task", from, to });
  }

  runBegun(run: BegunRun): void {
    this.begun.push(run);
  }

  runEnded(run: EndedRun): void {
    this.ended.push(run);
  }

  /** Says that jobs may be claimed now that could not be before, though none has moved: something is no longer paused. */
  queueOpened(): void {
    this.#opened = true;
  }

  get queueMoved(): boolean {
    return this.#opened || this.moves.some((move) => move.of === "job");
  }

  /** Whether anybody is to hear of it once it is committed. */
  get hasNews(): boolean {
    return this.#opened || [this.moves, this.events, this.begun, this.ended].some((told) => told.length > 0);
  }

  /** Appends to the history. */
  async event(kind: EventKind, about: EventSubject, detail: EventDetail = {}): Promise<void> {
    const jobId = about.jobId ?? null;
    const runId = about.runId ?? null;
    const id = await this.insert(
      "INSERT INTO task_events (task_id, job_id, run_id, at, kind, detail) VALUES (?, ?, ?, ?, ?, ?)",
      [about.taskId, jobId, runId, this.#now, kind, JSON.stringify(detail)],
    );
    this.events.push({ id: id!, taskId: about.taskId, jobId, runId, at: this.#now, kind, detail });
  }

  /** Appends several events of one kind to the history at once. */
  async eventOfEach(kind: EventKind, entries: readonly { taskId: number; detail: EventDetail }[]): Promise<void> {
    const at = this.#now;
    const rows = entries.map(({ taskId, detail }) => ({ task_id: taskId, at, kind, detail: JSON.stringify(detail) }));
    const ids = await insertRows(this, "task_events", rows);
    for (const [index, { taskId, detail }] of entries.entries()) {
      this.events.push({ id: ids[index]!.id, taskId, jobId: null, runId: null, at, kind, detail });
    }
  }
}

/** What an event is about; the task is null for what befalls the queue itself. */
export interface EventSubject {
  taskId: number | null;
  jobId?: number | null;
  runId?: number | null;
}
