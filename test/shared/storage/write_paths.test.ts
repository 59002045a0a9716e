import { expect, test } from "vitest";
import { findDoors, findWrites, readSources, withoutComments } from "./find_writes.ts";

/**
 * Every statement that writes a row. All of them take the transaction of `Storage.write`, which has found this scheduler's
 * epoch to be the current one; whoever adds one adds it here, and has thought of the fence.
 */
const STATEMENTS: Readonly<Record<string, readonly string[]>> = {
  "services/scheduler/advance_stage.ts": ["UPDATE tasks"],
  "shared/storage/activate_task.ts": ["UPDATE tasks"],
  "shared/storage/block_task.ts": ["UPDATE tasks"],
  "shared/storage/cancel_queued_job.ts": ["UPDATE jobs"],
  "shared/storage/cap_due_times.ts": ["UPDATE jobs"],
  "shared/storage/claim_job.ts": ["UPDATE jobs", "UPDATE tasks", "INSERT agent_runs", "UPDATE agent_runs"],
  "shared/storage/close_task.ts": ["UPDATE tasks"],
  "shared/storage/delete_pause.ts": ["DELETE queue_state"],
  "shared/storage/end_job.ts": ["UPDATE jobs", "UPDATE jobs"],
  "shared/storage/end_task_lease.ts": ["UPDATE tasks"],
  "shared/storage/finish_run.ts": ["UPDATE agent_runs"],
  "shared/storage/insert_pause.ts": ["INSERT queue_state"],
  "shared/storage/insert_rows.ts": ["INSERT any"],
  "shared/storage/probe_write.ts": ["UPDATE tasks"],
  "shared/storage/record_head.ts": ["UPDATE tasks"],
  "shared/storage/record_run_progress.ts": [
    ...["UPDATE agent_runs", "UPDATE agent_runs", "UPDATE agent_runs", "UPDATE agent_runs"],
  ],
  "shared/storage/shift_due_times.ts": ["UPDATE jobs"],
  // The lease is taken by whoever has no epoch yet; it is renewed and given back under the fence.
  "shared/storage/take_lease.ts": ["INSERT scheduler_lease", "UPDATE scheduler_lease"],
  "shared/storage/tx.ts": ["INSERT task_events"],
};

/** Everything that the driver's own calls are made by. */
const DOORS: Readonly<Record<string, readonly string[]>> = {
  // The one door: a transaction here begins by reading the epoch.
  "shared/storage/storage.ts": ["new Tx", "transaction"],
  // What it goes through, and the PRAGMAs of a connection.
  "shared/storage/connection.ts": [
    ...["createClient", "execute", "batch", "transaction", "new SqlTransaction"],
    ...["execute", "execute", "execute", "execute", "execute", "execute", "execute", "execute"],
  ],
  // The writer that is handed to the one door alone, its reader, and the stager's reader.
  "shared/storage/open.ts": ["new Connection", "new Connection", "new Connection"],
  // Before there is an epoch, under the scheduler lock: the schema, and the epoch itself.
  "shared/storage/migrate.ts": ["transaction"],
  "shared/storage/take_lease.ts": ["transaction", "transaction"],
  // The lock is a database of its own, which nobody else opens; who waits for it writes nothing.
  "shared/storage/kernel_lock.ts": ["createClient", "transaction", "execute"],
  "shared/storage/await_kernel_lock.ts": ["createClient", "executeMultiple"],
  // Reads, and writes a file that was not there.
  "shared/storage/copy_database.ts": ["createClient", "execute"],
};

test("there is no statement that writes but those that are known to be fenced", async () => {
  const found: Record<string, string[]> = {};
  for (const [path, source] of await readSources()) {
    const writes = findWrites(source);
    if (writes.length > 0) found[path] = writes;
  }
  expect(found).toEqual(STATEMENTS);
});

test("whatever writes takes the fenced transaction, which cannot be had elsewhere", async () => {
  const sources = await readSources();
  for (const path of Object.keys(STATEMENTS)) {
    if (path.endsWith("/tx.ts")) continue;
    // `Tx` has private fields, so nothing else passes for one; a part of it (`Pick`) would let any connection in.
    expect(sources.get(path), path).toMatch(/\btx: Tx\b/);
    expect(sources.get(path), path).not.toMatch(/tx: Pick</);
  }
});

test("transactions begin in one place, and connections are opened in few", async () => {
  const found: Record<string, string[]> = {};
  for (const [path, source] of await readSources()) {
    const doors = findDoors(source);
    if (doors.length > 0) found[path] = doors;
  }
  expect(found).toEqual(DOORS);
});

test("a task's stage is set where it is made and where it is advanced, and nowhere else", async () => {
  const setters: string[] = [];
  for (const [path, source] of await readSources()) {
    if (/update\s+tasks\s+set[^`"]*\bstage\s*=\s*\?[^`"]*\bwhere\b/i.test(source)) setters.push(path);
  }
  expect(setters).toEqual(["services/scheduler/advance_stage.ts"]);
});

test.each([
  ["await tx.run('insert or ignore into jobs (a) values (1)')", ["INSERT jobs"]],
  ["`UPDATE\n   tasks\n   SET stage = ?`", ["UPDATE tasks"]],
  ["const sql = `update $" + "{name} set a = 1`", ["UPDATE any"]],
  ['`delete from "jobs"`', ["DELETE jobs"]],
  ['"REPLACE INTO queue_state VALUES (1)" + "DELETE FROM jobs"', ["REPLACE queue_state", "DELETE jobs"]],
  ["`INSERT INTO a (b) VALUES (?) ON CONFLICT (b) DO UPDATE SET b = 1`", ["INSERT a"]],
  ["// an UPDATE tasks SET in words\n/* DELETE FROM jobs */ 'SELECT 1'", []],
  ['"http://host" + "DELETE FROM jobs"', ["DELETE jobs"]],
])("what writes is found in %j", (source, expected) => {
  expect(findWrites(withoutComments(source))).toEqual(expected);
});

test("doors are found however they are made", () => {
  expect(findDoors("db.transaction('write'); client.batch([]); new Connection(x); createClient({})")).toEqual([
    ...["transaction", "batch", "new Connection", "createClient"],
  ]);
});
