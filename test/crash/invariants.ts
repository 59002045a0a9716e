import type { TaskEvent } from "@orchestrator/shared/schemas/rows.ts";
import type { Snapshot } from "./database.ts";
import type { Journal } from "./journal.ts";

/** What must not be, in words that name the row. */
export type Violation = string;

/** The events by which a task changes its stage. */
export const isMove = ({ kind }: TaskEvent): boolean => kind === "advanced" || kind === "returned";

/** What must hold in the database at any moment, whoever has been killed. `accepted`: what the API answered with 201. */
export const checkDatabase = (seen: Snapshot, accepted: readonly string[]): Violation[] => [
  ...seen.damage,
  ...lost(seen, accepted),
  ...activeJobs(seen),
  ...chains(seen),
  ...movedTwice(seen),
  ...attempts(seen),
];

const lost = ({ tasks }: Snapshot, accepted: readonly string[]): Violation[] => {
  const known = new Set(tasks.map((task) => task.workItemId));
  return accepted.filter((id) => !known.has(id)).map((id) => `lost: ${id} was accepted and is not in the database`);
};

/** One active job for a task that is worked on, none for any other. */
const activeJobs = ({ tasks, jobs }: Snapshot): Violation[] =>
  tasks.flatMap((task) => {
    const active = jobs.filter(
      (job) => job.taskId === task.id && (job.status === "queued" || job.status === "running"),
    );
    const expected = task.status === "active" ? 1 : 0;
    const stages = active.filter((job) => job.stage !== task.stage);
    return [
      ...(active.length === expected ? [] : [`${task.workItemId} is ${task.status} with ${active.length} active jobs`]),
      ...stages.map((job) => `${task.workItemId} is in ${task.stage} with a job for ${job.stage}`),
    ];
  });

/** Each move begins where the last one ended, and the task is where the last one left it; when it is done, at that commit. */
const chains = ({ tasks, events }: Snapshot): Violation[] =>
  tasks.flatMap((task) => {
    const moves = events.filter((event) => event.taskId === task.id && isMove(event));
    const created = events.find((event) => event.taskId === task.id && event.kind === "created");
    let stage = String(created?.detail.stage);
    const breaks: Violation[] = [];
    for (const { id, detail } of moves) {
      if (detail.from !== stage)
        breaks.push(`${task.workItemId}: event ${id} moves it from ${detail.from}, not ${stage}`);
      stage = String(detail.to);
    }
    if (task.stage !== stage) breaks.push(`${task.workItemId} is in ${task.stage}, its events say ${stage}`);
    const head = moves.at(-1)?.detail.head;
    // Under way a run may have adopted a commit of the task's own whose settle was lost.
    if (task.status === "done" && task.head !== head)
      breaks.push(`${task.workItemId} has the head ${task.head}, its events say ${head}`);
    return breaks;
  });

const movedTwice = ({ events }: Snapshot): Violation[] => {
  const moves = new Map<number | null, number>();
  for (const { runId } of events.filter(isMove)) moves.set(runId, (moves.get(runId) ?? 0) + 1);
  return [...moves]
    .filter(([, n]) => n > 1)
    .map(([run, n]) => `advanced twice: run ${run} has moved its task ${n} times`);
};

/** Nothing in the harness ever fails by itself: an attempt that was used up was used up by a crash. */
const attempts = ({ jobs, runs }: Snapshot): Violation[] => [
  ...jobs
    .filter((job) => job.attempt > 1)
    .map((job) => `job ${job.id} (${job.stage}) is at attempt ${job.attempt}: ${job.error}`),
  ...runs
    .filter((run) => run.outcome === "failed" && run.outcomeClass !== "gate_failed")
    .map((run) => `run ${run.id} (${run.stage}) failed: ${run.outcomeClass ?? ""} ${run.reason}`),
];

/** What must hold as soon as a scheduler is ready again: nothing that its predecessor ran is taken for running. */
export const checkRecovered = (seen: Snapshot, lastRunId: number): Violation[] => [
  ...seen.jobs
    .filter((job) => job.status === "running" && (job.runId ?? 0) <= lastRunId)
    .map((job) => `job ${job.id} still runs the run ${job.runId} of a scheduler that is gone`),
  ...seen.runs
    .filter((run) => run.id <= lastRunId && run.outcome === null)
    .map((run) => `run ${run.id} of a scheduler that is gone has no outcome`),
];

/**
 * Nobody pays twice, and no two agents are at work on one item. An item that comes back to a stage has been in another one
 * meanwhile; until then it is the same work, in a fresh job after a retry as well.
 */
export const checkJournal = ({ notes }: Journal): Violation[] => {
  const finished = new Map<string, { stage: string; runId: number }>();
  const violations: Violation[] = [];
  for (const { kind, jobId, runId, workItemId, stage } of notes) {
    const before = finished.get(workItemId);
    if (kind === "start" && before?.stage === stage) {
      const what = `run ${runId} of job ${jobId} (${workItemId}, ${stage})`;
      violations.push(`paid twice: ${what} after run ${before.runId} had exited 0`);
    }
    if (kind === "overlap") violations.push(`run ${runId} of ${workItemId} began while an earlier agent was at work`);
    if (kind === "end") finished.set(workItemId, { stage, runId });
  }
  return violations;
};

/** When all that was fed has been worked. */
export const checkFinished = (seen: Snapshot): Violation[] => [
  ...seen.tasks
    .filter((task) => task.status !== "done")
    .map((task) => `${task.workItemId} is ${task.status} in ${task.stage}: ${task.blockedReason ?? ""}`),
  ...seen.jobs.filter((job) => job.status === "running").map((job) => `job ${job.id} runs and nobody works on it`),
  ...seen.runs.filter((run) => run.outcome === null).map((run) => `run ${run.id} (${run.stage}) has no outcome`),
];
