import type { Job, Run, Task, TaskEvent } from "@orchestrator/shared/schemas/rows.ts";
import { expect, test } from "vitest";
import type { Snapshot } from "./database.ts";
import { checkDatabase, checkFinished, checkJournal, checkRecovered } from "./invariants.ts";
import type { Journal } from "./journal.ts";

const AT = "2026-01-01T00:00:00.000Z";
const HEADS = ["a".repeat(40), "b".repeat(40)] as const;

const move = (id: number, runId: number, from: string, to: string, head: string): TaskEvent => ({
  ...{ id, taskId: 1, jobId: runId, runId, at: AT, kind: "advanced" },
  detail: { from, to, head },
});

const job = (id: number, stage: string, over: Partial<Job> = {}): Job => ({
  ...{
    id,
    taskId: 1,
    stage,
    agent: "analyst",
    status: "done",
    priority: 0,
    taskContent: "",
    attempt: 1,
    maxAttempts: 3,
  },
  ...{ availableAt: AT, runId: id, error: null, createdAt: AT, startedAt: AT, finishedAt: AT },
  ...over,
});

const run = (id: number, stage: string, over: Partial<Run> = {}): Run => ({
  ...{ id, jobId: id, taskId: 1, stage, agent: "analyst", attempt: 1, modelUsed: null, pid: 7, pidStarted: 8 },
  ...{ exitCode: 0, signal: null, outcome: "succeeded", outcomeClass: null, reason: null, logPath: null },
  ...{ startedAt: AT, exitedAt: AT, finishedAt: AT },
  ...over,
});

/** One item that has gone through both of its stages. */
const sound = (): Snapshot => ({
  tasks: [
    {
      ...{ id: 1, workItemId: "CRASH-1", title: "", description: "", repo: "shop", branch: "work/CRASH-1" },
      ...{ baseBranch: "main", head: HEADS[1], stage: "done", status: "done", priority: 0, returns: 0 },
      ...{ leaseRunId: null, blockedReason: null, createdAt: AT, updatedAt: AT },
    } satisfies Task,
  ],
  jobs: [job(1, "review"), job(2, "deploy")],
  runs: [run(1, "review"), run(2, "deploy")],
  events: [
    { id: 1, taskId: 1, jobId: null, runId: null, at: AT, kind: "created", detail: { stage: "review" } },
    move(2, 1, "review", "deploy", HEADS[0]),
    move(3, 2, "deploy", "done", HEADS[1]),
  ],
  pauses: [],
  epoch: 1,
  instanceId: "i",
  damage: [],
});

const all = (seen: Snapshot): string[] => [
  ...checkDatabase(seen, ["CRASH-1"]),
  ...checkFinished(seen),
  ...checkRecovered(seen, 2),
];

test("nothing is wrong with what is sound", () => {
  expect(all(sound())).toEqual([]);
});

test.each<[what: string, spoil: (seen: Snapshot) => void, said: RegExp]>([
  ["a damaged file", (seen) => seen.damage.push("row 3 missing from index"), /row 3 missing/],
  ["an item that was accepted and is gone", (seen) => seen.tasks.splice(0), /^lost: CRASH-1/],
  [
    "an active job of a finished task",
    (seen) => seen.jobs.push(job(3, "done", { status: "queued" })),
    /done with 1 active/,
  ],
  ["a task without a job", (seen) => Object.assign(seen.tasks[0]!, { status: "active" }), /active with 0 active jobs/],
  [
    "a job for another stage",
    (seen) => {
      Object.assign(seen.tasks[0]!, { status: "active", stage: "deploy" });
      seen.jobs.push(job(3, "review", { status: "queued" }));
    },
    /in deploy with a job for review/,
  ],
  ["a move from elsewhere", (seen) => seen.events.splice(1, 1), /moves it from deploy, not review/],
  ["a stage that no move led to", (seen) => Object.assign(seen.tasks[0]!, { stage: "review" }), /its events say done/],
  ["a head that no move recorded", (seen) => Object.assign(seen.tasks[0]!, { head: HEADS[0] }), /has the head aaa/],
  [
    "a stage that was advanced twice",
    (seen) => seen.events.push(move(4, 2, "done", "done", HEADS[1])),
    /^advanced twice/,
  ],
  ["an attempt that was used up", (seen) => Object.assign(seen.jobs[0]!, { attempt: 2 }), /at attempt 2/],
  ["a failed run", (seen) => Object.assign(seen.runs[0]!, { outcome: "failed" }), /run 1 \(review\) failed/],
  ["a task that is not done", (seen) => Object.assign(seen.tasks[0]!, { status: "blocked" }), /CRASH-1 is blocked/],
  ["a job that runs", (seen) => Object.assign(seen.jobs[1]!, { status: "running" }), /job 2 still runs the run 2/],
  ["a run without an outcome", (seen) => Object.assign(seen.runs[1]!, { outcome: null }), /run 2 .* has no outcome/],
])("%s is seen", (_, spoil, said) => {
  const seen = sound();
  spoil(seen);
  expect(all(seen).join("\n")).toMatch(new RegExp(said.source, "m"));
});

type Note = [kind: Journal["notes"][number]["kind"], jobId: number, runId: number, stage: string];

test.each<[what: string, notes: Note[], said: RegExp | null]>([
  [
    "an agent that was run again because it had been cut short",
    [
      ["start", 1, 1, "review"],
      ["start", 1, 2, "review"],
      ["end", 1, 2, "review"],
    ],
    null,
  ],
  [
    "a stage that was worked a second time after another one",
    [
      ["start", 1, 1, "review"],
      ["end", 1, 1, "review"],
      ["start", 2, 2, "development"],
      ["end", 2, 2, "development"],
      ["start", 3, 3, "review"],
    ],
    null,
  ],
  [
    "one that was run again after its exit 0",
    [
      ["start", 1, 1, "review"],
      ["end", 1, 1, "review"],
      ["start", 1, 2, "review"],
    ],
    /^paid twice: run 2 of job 1/,
  ],
  [
    "one that was run again after its exit 0 in the fresh job of a retry",
    [
      ["start", 1, 1, "deploy"],
      ["end", 1, 1, "deploy"],
      ["start", 2, 2, "deploy"],
    ],
    /^paid twice: run 2 of job 2 \(CRASH-1, deploy\) after run 1/,
  ],
  [
    "two at once",
    [
      ["start", 1, 1, "review"],
      ["overlap", 1, 2, "review"],
      ["start", 1, 2, "review"],
    ],
    /earlier agent was at work/,
  ],
])("the agents' journal with %s", (_, notes, said) => {
  const found = checkJournal({
    notes: notes.map(([kind, jobId, runId, stage]) => ({ kind, jobId, runId, workItemId: "CRASH-1", stage })),
  });
  if (said === null) expect(found).toEqual([]);
  else expect(found.join("\n")).toMatch(said);
});
