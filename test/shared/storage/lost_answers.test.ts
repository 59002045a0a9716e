import { LibsqlError } from "@libsql/client";
import { claimJob } from "@orchestrator/shared/storage/claim_job.ts";
import type { Committed } from "@orchestrator/shared/storage/committed.ts";
import { StorageBusyError } from "@orchestrator/shared/storage/connection.ts";
import { finishRun } from "@orchestrator/shared/storage/finish_run.ts";
import { probeWrite } from "@orchestrator/shared/storage/probe_write.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";
import { renewLease } from "@orchestrator/shared/storage/take_lease.ts";
import { expect, test } from "vitest";
import { failNextCommit, unreachable } from "../../helpers/failing_commits.ts";
import { insertTaskWithJob } from "../../helpers/insert.ts";
import { recordSql } from "../../helpers/recorded_sql.ts";
import { openTestStorage } from "../../helpers/storage.ts";

const ioError = (): Error => new LibsqlError("disk I/O error", "SQLITE_IOERR_FSYNC");

const setup = async () => {
  const { storage } = await openTestStorage();
  await insertTaskWithJob(storage, { workItemId: "ORCH-1" });
  const told: Committed[] = [];
  storage.onCommitted((committed) => told.push(committed));
  const marks = () => told.flatMap(({ events }) => events.map(({ id, detail }) => `${id} ${detail.mark}`));
  return { storage, told, marks };
};

const mark = (storage: Storage, name: string): Promise<void> =>
  storage.write((tx) => tx.event("created", { taskId: null }, { mark: name }));

const claim = (storage: Storage) =>
  storage.write((tx) =>
    claimJob(tx, {
      ...{ limits: { total: 9, perRepo: {}, perAgent: {} }, environments: {} },
      ...{ probes: () => new Set<string>(), modelOf: () => null, logPathOf: String },
    }),
  );

const counts = (storage: Storage) => ({ jobs: storage.tally.jobs(), tasks: storage.tally.tasksByStatus() });

test.each([
  ["a server that cannot be reached", unreachable],
  ["a disk that fails", ioError],
])("a commit that was made although %s was the answer is told of before the next one, once", async (_name, error) => {
  const { storage, told } = await setup();
  const lost = error();
  failNextCommit(lost, { made: true });
  await expect(claim(storage)).rejects.toBe(lost);
  expect(told).toEqual([]);
  await mark(storage, "between");

  const ending = { outcome: "failed", class: null, reason: "a reason" } as const;
  failNextCommit(lost, { made: true });
  const ends = storage.write(async (tx) => {
    await finishRun(tx, 1, ending);
    await tx.event("retried", { taskId: 1, jobId: 1, runId: 1 });
    tx.jobMoved("running", "queued");
  });
  await expect(ends).rejects.toBe(lost);
  await mark(storage, "next");
  await mark(storage, "last");

  const nothing = { events: [], begun: [], ended: [], queueMoved: false };
  const marked = (id: number, name: string) => ({
    ...nothing,
    events: [expect.objectContaining({ id, detail: { mark: name } })],
  });
  expect(told).toEqual([
    {
      ...{ events: [expect.objectContaining({ id: 1, kind: "claimed", runId: 1 })], queueMoved: true },
      ...{ begun: [expect.objectContaining({ runId: 1 })], ended: [] },
    },
    marked(2, "between"),
    {
      ...{ events: [expect.objectContaining({ id: 3, kind: "retried" })], queueMoved: true },
      ...{ begun: [], ended: [{ runId: 1, jobId: 1, agent: "analyst", stage: "analysis", ...ending }] },
    },
    marked(4, "next"),
    marked(5, "last"),
  ]);
  expect(counts(storage)).toMatchObject({ jobs: { queued: 1, running: 0 }, tasks: { active: 1 } });
});

test.each([
  ["a server that cannot be reached", unreachable],
  ["a disk that fails", ioError],
])("of a commit that was not made, %s being the answer, nothing is told or counted", async (_name, error) => {
  const { storage, told, marks } = await setup();
  failNextCommit(error(), { made: false });
  await expect(claim(storage)).rejects.toThrow();
  await mark(storage, "next");
  // Its event has taken the id of the one that is not there.
  expect(marks()).toEqual(["1 next"]);
  expect(told.flatMap(({ begun, ended }) => [...begun, ...ended])).toEqual([]);
  expect(counts(storage)).toMatchObject({ jobs: { queued: 1, running: 0 } });
});

test("the writes that shared the commit are all told of, each by itself", async () => {
  const { storage, told, marks } = await setup();
  failNextCommit(unreachable(), { made: true });
  const answers = await Promise.allSettled(["a", "b", "c"].map((name) => mark(storage, name)));
  expect(answers.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
  await storage.write(probeWrite);
  expect(marks()).toEqual(["1 a", "2 b", "3 c"]);
  expect(told.filter(({ events }) => events.length > 0)).toHaveLength(3);
});

test("while nobody answers, nothing is written, and what was in doubt stays so", async () => {
  const { storage, marks } = await setup();
  failNextCommit(unreachable(), { made: true });
  await expect(mark(storage, "lost")).rejects.toThrow("cannot be reached");
  let began = 0;
  for (let tries = 0; tries < 2; tries++) {
    failNextCommit(unreachable(), { made: false });
    const refused = storage.write(async () => {
      began += 1;
    });
    await expect(refused).rejects.toThrow("cannot be reached");
  }
  expect(began).toBe(0);
  expect(marks()).toEqual([]);
  await mark(storage, "next");
  expect(marks()).toEqual(["1 lost", "2 next"]);
});

test("a scheduler that was superseded meanwhile is told so, and tells of nothing", async () => {
  const { storage, marks } = await setup();
  failNextCommit(unreachable(), { made: true });
  const lost = storage.write(async (tx) => {
    await tx.event("created", { taskId: null }, { mark: "lost" });
    await tx.run("UPDATE scheduler_lease SET epoch = epoch + 1");
  });
  await expect(lost).rejects.toThrow("cannot be reached");
  await expect(mark(storage, "next")).rejects.toMatchObject({ code: "fenced_off" });
  expect(marks()).toEqual([]);
});

test("what moved without a word in the history is counted anew, and the queue is looked at", async () => {
  const { storage, told } = await setup();
  failNextCommit(unreachable(), { made: true });
  await expect(insertTaskWithJob(storage, { workItemId: "ORCH-2" })).rejects.toThrow("cannot be reached");
  await storage.write(probeWrite);
  expect(counts(storage)).toMatchObject({ jobs: { queued: 2 }, tasks: { active: 2 } });
  expect(told[0]).toEqual({ events: [], begun: [], ended: [], queueMoved: true });
});

/** What the next write asks besides its own statements. */
const asked = async (storage: Storage): Promise<string[]> => {
  const statements = recordSql();
  await storage.write(probeWrite);
  return statements.map(({ sql }) => sql).filter((sql) => !/^(SELECT epoch|UPDATE tasks) /.test(sql));
};

const failures: [what: string, fail: (storage: Storage) => Promise<unknown>][] = [
  [
    "a lock that was not to be had",
    (storage) => {
      failNextCommit(new StorageBusyError(300, new Error("locked")), { made: false });
      return mark(storage, "locked out");
    },
  ],
  [
    "a server that could not be reached before the commit",
    (storage) =>
      storage.write(async (tx) => {
        await tx.event("created", { taskId: null });
        throw unreachable();
      }),
  ],
  [
    "a disk that was full before the commit",
    (storage) =>
      storage.write(async (tx) => {
        await tx.event("created", { taskId: null });
        throw new LibsqlError("database or disk is full", "SQLITE_FULL");
      }),
  ],
  [
    "a lost answer to what nobody waits to hear of",
    (storage) => {
      failNextCommit(unreachable(), { made: true });
      return storage.write((tx) => renewLease(tx, "2999-01-01T00:00:00.000Z"));
    },
  ],
];

test.each(failures)("after %s there is nothing to find out", async (_what, fail) => {
  const { storage } = await setup();
  await expect(fail(storage)).rejects.toThrow();
  expect(await asked(storage)).toEqual([]);
});

test("what came of a commit is found out without going through history", async () => {
  const { storage } = await setup();
  failNextCommit(unreachable(), { made: true });
  await expect(claim(storage)).rejects.toThrow("cannot be reached");
  const found = await asked(storage);
  expect(found).toHaveLength(1);
  const plan = await storage.query<{ detail: string }>(`EXPLAIN QUERY PLAN ${found[0]}`, [1]);
  expect(plan.map(({ detail }) => detail)).toEqual([expect.stringMatching(/^SEARCH task_events USING .*PRIMARY KEY/)]);
});
