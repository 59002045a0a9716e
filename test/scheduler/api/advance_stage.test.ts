import type { TaskStatus } from "@orchestrator/shared/domain.ts";
import { expect, test } from "vitest";
import { advanceStage, type StageMove } from "../../../services/scheduler/advance_stage.ts";
import { databaseHash } from "../../helpers/database_hash.ts";
import { insertTaskWithJob } from "../../helpers/insert.ts";
import { openTestStorage } from "../../helpers/storage.ts";

const move = (over: Partial<StageMove>): StageMove => ({
  ...{ taskId: 1, from: "review", to: "testing", leaseRunId: 7, status: "active", head: "c0ffee", isReturn: false },
  ...over,
});

/** Tries a move of a task in `review`, and says whether it was made. */
const tryMove = async (task: { status: TaskStatus; lease: number | null }, step: StageMove) => {
  const { storage } = await openTestStorage();
  await insertTaskWithJob(storage, { workItemId: "A", stage: "review" });
  await storage.write((tx) =>
    tx.run("UPDATE tasks SET status = ?, lease_run_id = ?, head = 'f00d', returns = 1", [task.status, task.lease]),
  );
  const before = await databaseHash(storage);
  const moved = await storage.write((tx) => advanceStage(tx, step));
  const [row] = await storage.query("SELECT stage, status, head, returns, lease_run_id FROM tasks");
  return { moved, row, changed: (await databaseHash(storage)) !== before };
};

test.each<[string, { status: TaskStatus; lease: number | null }, Partial<StageMove>, boolean]>([
  ["the run that holds the lease", { status: "active", lease: 7 }, {}, true],
  ["another run", { status: "active", lease: 8 }, {}, false],
  ["a run, where nobody holds the lease", { status: "active", lease: null }, {}, false],
  ["a person, where nobody holds the lease", { status: "active", lease: null }, { leaseRunId: null }, true],
  ["a person, where a run holds the lease", { status: "active", lease: 7 }, { leaseRunId: null }, false],
  ["a person, where the task is blocked", { status: "blocked", lease: null }, { leaseRunId: null }, false],
  ["the run, where the task waits", { status: "waiting", lease: 7 }, {}, false],
  ["the run, where the task was cancelled", { status: "cancelled", lease: 7 }, {}, false],
  ["the run, from another stage", { status: "active", lease: 7 }, { from: "development" }, false],
])("%s: %j, %j: moves %s", async (_, task, over, moves) => {
  const { moved, changed } = await tryMove(task, move(over));
  expect([moved, changed]).toEqual([moves, moves]);
});

test("a move takes the lease away, sets the head, and counts a return", async () => {
  const leased = { status: "active", lease: 7 } as const;
  expect((await tryMove(leased, move({}))).row).toEqual({
    ...{ stage: "testing", status: "active", head: "c0ffee", returns: 1, leaseRunId: null },
  });
  const back = move({ to: "development", isReturn: true, head: null });
  expect((await tryMove(leased, back)).row).toEqual({
    ...{ stage: "development", status: "active", head: "f00d", returns: 2, leaseRunId: null },
  });
});
