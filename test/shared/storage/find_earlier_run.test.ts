import type { Run } from "@orchestrator/shared/schemas/rows.ts";
import { findEarlierRun } from "@orchestrator/shared/storage/find_earlier_run.ts";
import { findTestedRuns } from "@orchestrator/shared/storage/find_tested_runs.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";
import { expect, test } from "vitest";
import { insertTaskWithJob } from "../../helpers/insert.ts";
import { openTestStorage } from "../../helpers/storage.ts";

type Ending = Partial<Pick<Run, "outcome" | "outcomeClass" | "pidStarted" | "exitCode" | "signal">>;

const EXITED: Ending = { pidStarted: 5, exitCode: 0 };
const UNREACHABLE: Ending = { outcome: "tool_error", outcomeClass: "stager_unreachable" };
const RESTARTED: Ending = { outcome: "interrupted", outcomeClass: "restart" };
const FOREIGN: Ending = { outcome: "failed", outcomeClass: "foreign_commit" };
const MOVED: Ending = { outcome: "superseded", outcomeClass: "branch_moved" };

/** A task with runs that ended so, the first with the id 1, and what stands between: another task's. */
const withRuns = async (endings: readonly Ending[]): Promise<{ storage: Storage; taskId: number; jobId: number }> => {
  const { storage } = await openTestStorage();
  const other = await insertTaskWithJob(storage, { workItemId: "OTHER" });
  const { job } = await insertTaskWithJob(storage, { workItemId: "ORCH-1" });
  const insert = `INSERT INTO agent_runs
    (id, job_id, task_id, stage, agent, attempt, pid_started, exit_code, signal, outcome, outcome_class, started_at)
    VALUES (?, ?, ?, 'testing', 'tester', 1, ?, ?, ?, ?, ?, '2026-01-01T00:00:00.000Z')`;
  await storage.write(async (tx) => {
    for (const [n, { pidStarted, exitCode, signal, outcome, outcomeClass }] of endings.entries()) {
      const ending = [pidStarted ?? null, exitCode ?? null, signal ?? null, outcome ?? "failed", outcomeClass ?? null];
      await tx.run(insert, [n + 1, job.id, job.taskId, ...ending]);
    }
    await tx.run(insert, [endings.length + 1, other.job.id, other.task.id, 5, 0, null, "succeeded", null]);
  });
  return { storage, taskId: job.taskId, jobId: job.id };
};

const earlierThan = async (endings: readonly Ending[]) => {
  const { storage, taskId } = await withRuns(endings);
  return findEarlierRun(storage, taskId, endings.length + 2);
};

test("the author is found behind however many runs that waited for a stager in vain", async () => {
  const waited = Array<Ending>(150).fill(UNREACHABLE);
  expect(await earlierThan([{ ...EXITED, outcome: "succeeded" }, ...waited])).toEqual({
    ...{ id: 1, jobId: 2, stage: "testing", agent: "tester", attempt: 1, outcome: "succeeded" },
    ...{ isFinished: false, judgedBy: null },
  });
  const cutShort = { ...EXITED, ...RESTARTED };
  expect(await earlierThan([cutShort, ...waited])).toMatchObject({ id: 1, isFinished: true, judgedBy: null });
  expect(await earlierThan([cutShort, { outcome: "failed" }, ...waited])).toMatchObject({
    ...{ id: 1, isFinished: false, judgedBy: 2 },
  });
});

test.each<[what: string, runs: Ending[], found: object | null]>([
  ["no run", [], null],
  ["none whose agent was started", [RESTARTED, { outcome: "failed" }], null],
  ["the newest of two agents", [EXITED, { pidStarted: 5, exitCode: 1 }], { id: 2, isFinished: false }],
  ["an agent that may have been started, as far as is known", [{ pidStarted: 0, ...RESTARTED }], { id: 1 }],
  ["one that exited 0 and was then cut short", [{ ...EXITED, ...RESTARTED }], { id: 1, isFinished: true }],
  [
    "one that exited 0 and was lost",
    [{ ...EXITED, outcome: "failed", outcomeClass: "lost" }],
    { id: 1, isFinished: true },
  ],
  [
    "one that exited 0 and met somebody else's commit",
    [{ ...EXITED, ...FOREIGN }],
    { id: 1, isFinished: true, judgedBy: null },
  ],
  [
    "one that exited 0, and whose next run met somebody else's commit, or another run's",
    [{ ...EXITED, ...RESTARTED }, FOREIGN, MOVED],
    { id: 1, isFinished: true, judgedBy: null },
  ],
  [
    "one that exited 0 upon a signal of ours",
    [{ ...EXITED, ...RESTARTED, signal: "SIGTERM" }],
    { id: 1, isFinished: false },
  ],
  ["one whose own run was judged", [{ ...EXITED, outcome: "failed" }], { id: 1, isFinished: false, judgedBy: null }],
  [
    "one judged by a later run, and by another after that",
    [{ ...EXITED, ...RESTARTED }, { outcome: "failed" }, RESTARTED, { outcome: "timed_out" }, UNREACHABLE],
    { id: 1, isFinished: false, judgedBy: 4 },
  ],
])("of %s", async (_, runs, found) => {
  const earlier = await earlierThan(runs);
  if (found === null) expect(earlier).toBeNull();
  else expect(earlier).toMatchObject(found);
});

test("runs that may have been tested are those that were cut short since the last that was not", async () => {
  const { storage, jobId } = await withRuns([RESTARTED, { outcome: "failed" }, MOVED, UNREACHABLE, RESTARTED]);
  expect(await findTestedRuns(storage, jobId, 5)).toEqual([4, 3]);
  expect(await findTestedRuns(storage, jobId, 3)).toEqual([]);
  expect(await findTestedRuns(storage, jobId, 2)).toEqual([1]);
});
