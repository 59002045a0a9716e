import { inspect, isDeepStrictEqual } from "node:util";
import { toSnake } from "@orchestrator/shared/case.ts";
import { isoTime } from "@orchestrator/shared/clock.ts";
import { DEFER_MARKER } from "@orchestrator/shared/defer.ts";
import type { QueueView } from "@orchestrator/shared/schemas/queue.ts";
import type { SystemicFaults } from "../../services/scheduler/systemic_faults.ts";
import type { Model, ModelEvent, ModelJob, ModelRun, ModelTask } from "./model.ts";
import type { EventRow, JobRow, RunRow, Tables, TaskRow } from "./read_database.ts";

/** The database, or what the scheduler shows of itself, is not what the model says. */
export class MismatchError extends Error {
  constructor(what: string, found: unknown, expected: unknown) {
    super(`${what} is not as the model has it:\n  found    ${show(found)}\n  expected ${show(expected)}`);
  }
}

const show = (value: unknown): string => inspect(value, { breakLength: Number.POSITIVE_INFINITY, depth: 6 });

export const mustEqual = (what: string, found: unknown, expected: unknown): void => {
  if (found !== expected && !isDeepStrictEqual(found, expected)) throw new MismatchError(what, found, expected);
};

/** Holds every row against the model; of the events those that the last step has added. */
export const compareTables = (model: Model, tables: Tables, newEvents: readonly ModelEvent[]): void => {
  compareEach("task", tables.tasks, model.tasks, compareTask);
  compareEach("job", tables.jobs, model.jobs, compareJob);
  compareEach("run", tables.runs, model.runs, compareRun);
  // A history each, and one of the queue itself: what is written apart, or for several at once, is in no order among them.
  for (const id of new Set([...tables.events.map((row) => row.task_id), ...newEvents.map((event) => event.taskId)])) {
    const rows = tables.events.filter((row) => row.task_id === id);
    compareEach(
      "event",
      rows,
      newEvents.filter((event) => event.taskId === id),
      compareEvent,
    );
  }
  mustEqual(
    "what is paused",
    tables.paused.map(({ what, since }) => ({ what, since })),
    model.pauses().map((what) => ({ what, since: isoTime(model.paused.get(what)!.sinceMs) })),
  );
  for (const { what, reason } of tables.paused)
    mustContain(`the reason of ${what}`, reason, model.paused.get(what)!.reason);
};

const compareEach = <R extends { id: number }, M>(
  what: string,
  rows: readonly R[],
  models: readonly M[],
  compare: (what: string, row: R, model: M) => void,
): void => {
  if (rows.length !== models.length) throw new MismatchError(`the list of ${what}s`, rows, models);
  for (const [index, row] of rows.entries()) compare(`${what} ${row.id}`, row, models[index]!);
};

const mustContain = (what: string, found: string | null, expected: string | null): void => {
  if (expected === null ? found !== null : !found?.includes(expected)) throw new MismatchError(what, found, expected);
};

/** The columns of a row that are expected. Told apart one by one: rows are many, and nearly all are as they should be. */
const mustMatch = <R extends object>(what: string, row: R, expected: Partial<R>): void => {
  for (const column of Object.keys(expected) as (keyof R)[])
    if (row[column] !== expected[column]) throw new MismatchError(`${what}: ${String(column)}`, row, expected);
};

const compareTask = (what: string, row: TaskRow, task: ModelTask): void => {
  const { id, workItemId, repo, branch, priority, stage, status, returns, head, leaseRunId } = task;
  const names = { work_item_id: workItemId, lease_run_id: leaseRunId };
  mustMatch(what, row, { id, repo, branch, priority, stage, status, returns, head, ...names });
  mustContain(`the reason why ${what} is blocked`, row.blocked_reason, task.blocked);
};

const compareJob = (what: string, row: JobRow, job: ModelJob): void => {
  const { id, taskId, stage, agent, status, priority, attempt, maxAttempts, availableAtMs, runId, markers } = job;
  const names = { task_id: taskId, max_attempts: maxAttempts, run_id: runId };
  const available_at = new Date(availableAtMs).toISOString();
  mustMatch(what, row, { id, stage, agent, status, priority, attempt, available_at, ...names });
  mustEqual(`the number of markers of ${what}`, row.task_content.split(DEFER_MARKER).length - 1, markers);
  if (job.why !== null) mustContain(`why ${what} is here again`, row.task_content, job.why);
};

const compareRun = (what: string, row: RunRow, run: ModelRun): void => {
  const { id, jobId, taskId, attempt, outcome, exitCode, signal, mayHaveBegun } = run;
  const names = { job_id: jobId, task_id: taskId, outcome_class: run.class, exit_code: exitCode };
  mustMatch(what, row, { id, attempt, outcome, signal, ...names });
  mustEqual(`whether ${what} may have begun`, row.pid_started !== null, mayHaveBegun);
};

const compareEvent = (what: string, row: EventRow, event: ModelEvent): void => {
  const { kind, task_id, job_id, run_id, detail } = row;
  const told = Object.fromEntries(Object.keys(event.detail).map((key) => [key, detail[key]]));
  mustEqual(
    what,
    { kind, task_id, job_id, run_id, detail: told },
    { kind, task_id: event.taskId, job_id: event.jobId, run_id: event.runId, detail: event.detail },
  );
};

/** Holds what `GET /queue` shows of the scheduler's memory against the model. */
export const compareMemory = (model: Model, view: QueueView): void => {
  const { process } = model;
  const { last_sweep_at: _at, last_sweep_ms: _ms, ...counts } = view.reaper;
  mustEqual("the reaper's count", counts, toSnake(process.counts));
  mustEqual("the count of deferred staging runs", view.staging_runner.deferred, process.deferred);
  mustEqual("the epoch", view.scheduler.epoch, model.epoch);
  const inHand = [...process.active].map(([jobId, runId]) => `${jobId} ${runId} ${process.owner(jobId, runId)!.phase}`);
  const shown = view.running.map(({ job_id, run_id, phase }) => `${job_id} ${run_id} ${phase}`);
  mustEqual("the list of runs in hand", shown.sort(), inHand.sort());
  const marks = Object.entries(view.finalizer_liveness).map(([jobId, { run_id }]) => `${jobId} ${run_id}`);
  mustEqual(
    "the list of marks",
    marks.sort(),
    [...process.marks].map(([jobId, { runId }]) => `${jobId} ${runId}`).sort(),
  );
};

/** Holds what is remembered of runs under way, of pauses and of their probes against the model: none may be left behind. */
export const compareFaults = (
  { process }: Model,
  { underWay, pauses }: ReturnType<SystemicFaults["snapshot"]>,
): void => {
  mustEqual(
    "the list of runs that may meet a systemic fault",
    underWay.sort(byNumber),
    [...process.claims].sort(byNumber),
  );
  const own = [...process.faults.own].map(([what, { failures, dueMs, probe }]) => [
    what,
    { probes: failures, probeAtMs: dueMs, probedBy: probe },
  ]);
  mustEqual("what is paused for a systemic fault", pauses, Object.fromEntries(own));
};

const byNumber = (a: number, b: number): number => a - b;
