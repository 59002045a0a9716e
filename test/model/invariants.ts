import { DONE_STAGE, UNFINISHED_TASK_STATUSES } from "@orchestrator/shared/domain.ts";
import type { QueueView } from "@orchestrator/shared/schemas/queue.ts";
import type { Committed } from "@orchestrator/shared/storage/committed.ts";
import type { TaskPlace } from "@orchestrator/shared/storage/tally.ts";
import type { EventRow, JobRow, RunRow, Tables, TaskRow } from "./read_database.ts";
import { CONFIG, PIPELINE } from "./surroundings.ts";

/** What the contract promises whatever has happened; it knows nothing of the model. */
class BrokenInvariantError extends Error {}

const must = (holds: boolean, says: () => string): void => {
  if (!holds) throw new BrokenInvariantError(says());
};

const groupBy = <T>(rows: readonly T[], key: (row: T) => number | null): Map<number | null, T[]> => {
  const groups = new Map<number | null, T[]>();
  for (const row of rows) {
    const group = groups.get(key(row));
    if (group) group.push(row);
    else groups.set(key(row), [row]);
  }
  return groups;
};

const isActive = ({ status }: JobRow): boolean => status === "queued" || status === "running";

/** @param events all that there have ever been. */
export const checkInvariants = (tables: Tables, events: readonly EventRow[]): void => {
  const jobs = groupBy(tables.jobs, (job) => job.task_id);
  const runs = groupBy(tables.runs, (run) => run.job_id);
  const ofTask = groupBy(events, (event) => event.task_id);
  for (const task of tables.tasks) {
    checkTask(task, jobs.get(task.id) ?? []);
    checkWay(task, ofTask.get(task.id) ?? []);
  }
  for (const job of tables.jobs) checkJob(job, runs.get(job.id) ?? []);
  checkRuns(tables, events);
  checkBranches(tables.tasks);
  checkPauses(tables, ofTask.get(null) ?? []);
};

/** Who has a job, a lease and a reason, and who has not. */
const checkTask = (task: TaskRow, jobs: readonly JobRow[]): void => {
  const { id, status, stage, lease_run_id: lease, blocked_reason: reason } = task;
  const active = jobs.filter(isActive);
  must(
    active.length === (status === "active" ? 1 : 0),
    () => `task ${id} is ${status} and has ${active.length} active jobs`,
  );
  const running = active.find((job) => job.status === "running");
  must(
    lease === (running?.run_id ?? null),
    () => `task ${id} is leased to run ${lease}, its job runs as ${running?.run_id}`,
  );
  must(
    (status === "blocked") === (reason !== null && reason.trim() !== ""),
    () => `task ${id}: ${status}, reason ${reason}`,
  );
  must((status === "done") === (stage === DONE_STAGE), () => `task ${id} is ${status} in ${stage}`);
  for (const job of active) {
    must(job.stage === stage, () => `job ${job.id} is of ${job.stage}, its task stands in ${stage}`);
    const agent = PIPELINE.stages.find(({ name }) => name === stage)?.agent;
    must(job.agent === agent, () => `job ${job.id} of ${stage} is for ${job.agent}`);
  }
};

/** The chain of its moves has no gap and ends where the task stands. */
const checkWay = ({ id, stage, returns, head }: TaskRow, events: readonly EventRow[]): void => {
  let at = events[0]?.detail["stage"];
  let returned = 0;
  let moved: unknown = null;
  must(events[0]?.kind === "created", () => `task ${id} begins with ${events[0]?.kind}`);
  for (const { kind, detail, id: eventId } of events) {
    if (kind === "retried" && detail["by"] === "person") returned = 0;
    if (kind !== "advanced" && kind !== "returned") continue;
    must(
      detail["from"] === at,
      () => `event ${eventId} takes task ${id} from ${detail["from"]}, where it is not: ${at}`,
    );
    at = detail["to"];
    moved = detail["head"] ?? moved;
    if (kind === "returned") returned += 1;
  }
  must(at === stage, () => `task ${id} stands in ${stage}, its history ends in ${at}`);
  must(returned === returns, () => `task ${id} has gone back ${returned} times and counts ${returns}`);
  must(moved === null || head !== null, () => `task ${id} has lost its head ${moved}`);
};

const checkJob = (job: JobRow, runs: readonly RunRow[]): void => {
  const { id, status, run_id: runId, attempt, max_attempts: maxAttempts } = job;
  must((status === "running") === (runId !== null) || !isActive(job), () => `job ${id} is ${status} with run ${runId}`);
  must(isActive(job) === (job.finished_at === null), () => `job ${id} is ${status}, finished at ${job.finished_at}`);
  must(attempt >= 1 && attempt <= maxAttempts, () => `job ${id} is at attempt ${attempt} of ${maxAttempts}`);
  const open = runs.filter((run) => run.outcome === null).map((run) => run.id);
  must(open.length === (status === "running" ? 1 : 0), () => `job ${id} is ${status} and has the open runs ${open}`);
  must(status !== "running" || open[0] === runId, () => `job ${id} runs as ${runId}, open is run ${open}`);

  const count = (holds: (run: RunRow) => boolean) => runs.filter(holds).length;
  const attempts = count(({ outcome, outcome_class: cls }) =>
    outcome === "failed" ? cls !== "gate_failed" : outcome === "timed_out" || outcome === "stalled",
  );
  must(attempts <= maxAttempts, () => `job ${id} has had ${attempts} failed attempts of ${maxAttempts}`);
  const toolErrors = count((run) => run.outcome === "tool_error" && run.outcome_class !== "stager_unreachable");
  must(toolErrors <= 10, () => `job ${id} has had ${toolErrors} tool errors`);
  const markers = job.task_content.split("[staging-infra-defer]").length - 1;
  must(markers <= CONFIG.stagingMaxDefers, () => `job ${id} has been put off ${markers} times`);
  let interruptions = 0;
  for (const { outcome } of runs) {
    interruptions = outcome === "interrupted" ? interruptions + 1 : 0;
    must(interruptions <= 5, () => `job ${id} has been interrupted ${interruptions} times in a row`);
  }
};

const OF_A_MOVE: Readonly<Record<string, string>> = { advanced: "succeeded", returned: "failed" };

/** A run is claimed once, moves its task at most once, and only by what it came to. */
const checkRuns = ({ runs }: Tables, events: readonly EventRow[]): void => {
  const ofRun = groupBy(
    events.filter(({ run_id: runId }) => runId !== null),
    (event) => event.run_id,
  );
  for (const run of runs) {
    const kinds = (ofRun.get(run.id) ?? []).map(({ kind }) => kind);
    must(kinds[0] === "claimed" && kinds.lastIndexOf("claimed") === 0, () => `run ${run.id} has the events ${kinds}`);
    const moves = kinds.filter((kind) => kind === "advanced" || kind === "returned");
    must(moves.length <= 1, () => `run ${run.id} has moved its task ${moves.length} times`);
    for (const move of moves)
      must(run.outcome === OF_A_MOVE[move], () => `run ${run.id} has ${move} its task and came to ${run.outcome}`);
    must(
      (run.outcome === null) === (run.finished_at === null),
      () => `run ${run.id}: ${run.outcome}, ${run.finished_at}`,
    );
  }
};

const checkBranches = (tasks: readonly TaskRow[]): void => {
  const unfinished = tasks.filter(({ status }) => (UNFINISHED_TASK_STATUSES as readonly string[]).includes(status));
  const branches = unfinished.map(({ repo, branch }) => `${branch} of ${repo}`);
  must(new Set(branches).size === branches.length, () => `two unfinished tasks on one branch: ${branches}`);
};

/** What is paused is what the history says. */
const checkPauses = ({ paused }: Tables, events: readonly EventRow[]): void => {
  const said = new Set<string>();
  for (const { kind, detail } of events) {
    const what = String(detail["what"]);
    if (kind === "paused") said.add(what);
    if (kind === "resumed") must(said.delete(what), () => `${what} was resumed and had not been paused`);
  }
  const found = paused.map(({ what }) => what);
  must(said.size === found.length && found.every((what) => said.has(what)), () => `${found} paused, not ${[...said]}`);
};

/** The history only grows, by one at a time, and what a task stands on moves only in a settle. */
export const checkStep = (before: Tables | null, after: Tables, lastEventId: number): void => {
  for (const [index, event] of after.events.entries())
    must(event.id === lastEventId + index + 1, () => `event ${event.id} follows on ${lastEventId + index}`);
  for (const task of before?.tasks ?? []) {
    const now = after.tasks.find(({ id }) => id === task.id);
    if (!now) throw new BrokenInvariantError(`task ${task.id} is gone`);
    const added = after.events.filter((event) => event.task_id === task.id);
    const kinds = added.map(({ kind }) => kind);
    if (now.head !== task.head) {
      const mayMove = kinds.some((kind) => ["advanced", "returned", "blocked"].includes(kind));
      // A run that begins on another commit than the head (the first, or one of the task's own) has to have the lease.
      const isBegin = task.lease_run_id !== null && now.head === `begin-of-run-${task.lease_run_id}`;
      must(mayMove || isBegin, () => `task ${task.id}: head ${task.head} became ${now.head} by ${kinds}`);
    }
    if (now.stage !== task.stage)
      must(
        kinds.some((kind) => kind === "advanced" || kind === "returned"),
        () => `task ${task.id} moved by ${kinds}`,
      );
    const isOver = task.status === "done" || task.status === "cancelled";
    must(
      !isOver || JSON.stringify(now) === JSON.stringify(task),
      () => `task ${task.id} was ${task.status}, and changed`,
    );
  }
};

/** What is kept in memory is what a recount of the tables gives. */
export const checkTally = (
  { jobs, tasks, paused }: Tables,
  tally: { jobs(): object; tasks(): (TaskPlace & { n: number })[] },
  view: QueueView,
): void => {
  const count = (rows: readonly string[]): Record<string, number> => {
    const counts: Record<string, number> = {};
    for (const row of rows) counts[row] = (counts[row] ?? 0) + 1;
    return counts;
  };
  const same = (what: string, kept: object, counted: Record<string, number>) => {
    const nonZero = Object.entries(kept).filter(([, n]) => n !== 0);
    const isSame = nonZero.length === Object.keys(counted).length && nonZero.every(([key, n]) => counted[key] === n);
    must(isSame, () => `${what}: kept ${JSON.stringify(kept)}, counted ${JSON.stringify(counted)}`);
  };
  const byStatus = count(jobs.map((job) => job.status));
  same("jobs by status", tally.jobs(), byStatus);
  const places = Object.fromEntries(tally.tasks().map(({ stage, status, n }) => [`${status} in ${stage}`, n]));
  same("tasks by place", places, count(tasks.map(({ stage, status }) => `${status} in ${stage}`)));
  const { oldest_queued_s: oldest, ...shown } = view.jobs;
  same("jobs in GET /queue", shown, byStatus);
  must((oldest === null) === (byStatus["queued"] === undefined), () => `the oldest queued is ${oldest} s old`);
  same("tasks by status in GET /queue", view.tasks.by_status, count(tasks.map((task) => task.status)));
  same("tasks by stage in GET /queue", view.tasks.by_stage, count(tasks.map((task) => task.stage)));
  must(JSON.stringify(view.paused) === JSON.stringify(paused), () => `paused in GET /queue: ${view.paused}`);
};

/** Whoever listens has heard of all that was committed, and of nothing twice. */
export const checkTold = (
  { runs }: Tables,
  events: readonly Pick<EventRow, "id">[],
  told: readonly Committed[],
): void => {
  const same = (what: string, heard: number[], found: number[]) =>
    must(
      heard.length === found.length && heard.every((id, index) => id === found[index]),
      () => `${what}: told of ${heard}, there are ${found}`,
    );
  const ids = (rows: readonly { id: number }[]) => rows.map(({ id }) => id);
  same("events", ids(told.flatMap((committed) => committed.events)), ids(events));
  const runIds = (of: readonly { runId: number }[]) => of.map(({ runId }) => runId).sort((a, b) => a - b);
  same("runs that have begun", runIds(told.flatMap((committed) => committed.begun)), ids(runs));
  const ended = runs.filter((run) => run.outcome !== null);
  same("runs that have ended", runIds(told.flatMap((committed) => committed.ended)), ids(ended));
};
