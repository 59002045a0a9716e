import { join } from "node:path";
import { createClient } from "@libsql/client";
import { JOB_STATUSES, TASK_STATUSES } from "@orchestrator/shared/domain.ts";
import { FencedOffError } from "@orchestrator/shared/storage/check_epoch.ts";
import { enqueueJob } from "@orchestrator/shared/storage/enqueue_job.ts";
import { insertTasks } from "@orchestrator/shared/storage/insert_task.ts";
import { SCHEMA_VERSION } from "@orchestrator/shared/storage/migrate.ts";
import { openReadOnly } from "@orchestrator/shared/storage/open.ts";
import { describe, expect, test } from "vitest";
import { insertTaskWithJob } from "../../helpers/insert.ts";
import { openTestStorage } from "../../helpers/storage.ts";
import { tempFolder } from "../../helpers/temp_folder.ts";

describe("what the database itself refuses", () => {
  test("a second active job of a task", async () => {
    const { storage } = await openTestStorage();
    const { task, job } = await insertTaskWithJob(storage, { workItemId: "ORCH-1" });
    const second = storage.write((tx) => enqueueJob(tx, { ...job, taskId: task.id }));
    await expect(second).rejects.toThrow(/UNIQUE constraint failed: jobs.task_id/);
    await storage.write((tx) => tx.run("UPDATE jobs SET status = 'done' WHERE id = ?", [job.id]));
    await storage.write((tx) => enqueueJob(tx, { ...job, taskId: task.id }));
    expect(await storage.query("SELECT status FROM jobs ORDER BY id")).toEqual([
      { status: "done" },
      { status: "queued" },
    ]);
  });

  test("a second unfinished task on a branch of a repository", async () => {
    const { storage } = await openTestStorage();
    await insertTaskWithJob(storage, { workItemId: "ORCH-1", branch: "work/same" });
    const second = storage.write((tx) =>
      tx.run(`INSERT INTO tasks (work_item_id, title, description, repo, branch, base_branch, stage, status, priority, created_at, updated_at)
              SELECT 'ORCH-2', title, '', repo, branch, base_branch, stage, 'waiting', 0, created_at, updated_at FROM tasks`),
    );
    await expect(second).rejects.toThrow(/UNIQUE constraint failed: tasks.repo, tasks.branch/);
    await insertTaskWithJob(storage, { workItemId: "ORCH-3", branch: "work/same", repo: "other" });
  });

  test.each([
    ["a task status", "UPDATE tasks SET status = 'paused'"],
    ["a job status", "UPDATE jobs SET status = 'stuck'"],
    ["a run outcome", "UPDATE agent_runs SET outcome = 'fine'"],
  ])("%s outside its list", async (_, sql) => {
    const { storage } = await openTestStorage();
    const { job } = await insertTaskWithJob(storage, { workItemId: "ORCH-1" });
    await storage.write((tx) =>
      tx.run(
        "INSERT INTO agent_runs (job_id, task_id, stage, agent, attempt, started_at) VALUES (?, ?, 'analysis', 'a', 1, ?)",
        [job.id, job.taskId, tx.now],
      ),
    );
    await expect(storage.write((tx) => tx.run(sql))).rejects.toThrow(/CHECK constraint failed/);
  });

  test.each(["jobs", "agent_runs", "task_events"])("an orphaned task_id in %s", async (table) => {
    const { storage } = await openTestStorage();
    const { job } = await insertTaskWithJob(storage, { workItemId: "ORCH-1" });
    const inserts: Record<string, string> = {
      jobs: `INSERT INTO jobs (task_id, stage, agent, status, priority, task_content, attempt, max_attempts, available_at, created_at)
             VALUES (99, 's', 'a', 'queued', 0, '', 1, 3, 'now', 'now')`,
      agent_runs: `INSERT INTO agent_runs (job_id, task_id, stage, agent, attempt, started_at) VALUES (${job.id}, 99, 's', 'a', 1, 'now')`,
      task_events: "INSERT INTO task_events (task_id, at, kind, detail) VALUES (99, 'now', 'created', '{}')",
    };
    await expect(storage.write((tx) => tx.run(inserts[table]!))).rejects.toThrow(/FOREIGN KEY constraint failed/);
  });

  test("changing or removing an event", async () => {
    const { storage } = await openTestStorage();
    const { task } = await insertTaskWithJob(storage, { workItemId: "ORCH-1" });
    await storage.write((tx) => tx.event("created", { taskId: task.id }));
    await expect(storage.write((tx) => tx.run("UPDATE task_events SET kind = 'done'"))).rejects.toThrow(/append-only/);
    await expect(storage.write((tx) => tx.run("DELETE FROM task_events"))).rejects.toThrow(/append-only/);
  });

  test("nothing that the closed lists hold", async () => {
    const { storage } = await openTestStorage();
    const { task, job } = await insertTaskWithJob(storage, { workItemId: "ORCH-1" });
    for (const status of TASK_STATUSES)
      await storage.write((tx) => tx.run("UPDATE tasks SET status = ? WHERE id = ?", [status, task.id]));
    for (const status of JOB_STATUSES)
      await storage.write((tx) => tx.run("UPDATE jobs SET status = ? WHERE id = ?", [status, job.id]));
  });
});

test("a database newer than the program is refused with both versions, and left as it was", async () => {
  const { storage, path, url } = await openTestStorage();
  await storage.close();
  const client = createClient({ url, concurrency: 1 });
  await client.execute(`PRAGMA user_version = ${SCHEMA_VERSION + 1}`);
  client.close();
  const opening = openTestStorage({ path });
  await expect(opening).rejects.toThrow(
    `the database has schema version ${SCHEMA_VERSION + 1}, this program knows versions up to ${SCHEMA_VERSION}`,
  );
  const reader = await openReadOnly(url, null);
  expect(await reader.query("SELECT epoch FROM scheduler_lease")).toEqual([{ epoch: 1 }]);
  await reader.close();
});

test("a file that is no database is refused and left as it was", async () => {
  const path = join(await tempFolder(), "orchestrator.db");
  const { writeFile, readFile } = await import("node:fs/promises");
  const text = "This is a shopping list and not a database.\n".repeat(50);
  await writeFile(path, text);
  await expect(openTestStorage({ path })).rejects.toThrow(/not a database/i);
  expect(await readFile(path, "utf8")).toBe(text);
});

test("each opening takes the next epoch, keeps the instance id, and fences the earlier opener off", async () => {
  const first = await openTestStorage();
  const second = await openTestStorage({ path: first.path });
  expect(second.instanceId).toBe(first.instanceId);
  expect([first.storage.epoch, second.storage.epoch]).toEqual([1, 2]);
  await expect(insertTaskWithJob(first.storage, { workItemId: "late" })).rejects.toBeInstanceOf(FencedOffError);
  await expect(first.storage.checkFence()).rejects.toBeInstanceOf(FencedOffError);
  await insertTaskWithJob(second.storage, { workItemId: "current" });
  expect(await second.storage.query("SELECT work_item_id FROM tasks")).toEqual([{ workItemId: "current" }]);
});

test("a connection opened for reading cannot write, and does not make a database that is missing", async () => {
  const { storage, url } = await openTestStorage();
  await insertTaskWithJob(storage, { workItemId: "ORCH-1" });
  const reader = await openReadOnly(url, null);
  expect(await reader.query("SELECT work_item_id FROM tasks")).toEqual([{ workItemId: "ORCH-1" }]);
  await expect(reader.query("DELETE FROM tasks")).rejects.toThrow(/readonly|read-only|query_only/i);
  await reader.close();
  const missing = join(await tempFolder(), "none.db");
  await expect(openReadOnly(`file:${missing}`, null)).rejects.toThrow(`there is no database at ${missing} yet`);
});

test("the tally is what the tables hold, while it is kept and after it was counted anew", async () => {
  const first = await openTestStorage();
  const { storage } = first;
  for (const n of [1, 2, 3]) await insertTaskWithJob(storage, { workItemId: `ORCH-${n}` });
  await expect(
    storage.write(async (tx) => {
      await insertTasks(tx, [
        {
          workItemId: "rolled-back",
          title: "",
          description: "",
          repo: "shop",
          branch: "b",
          baseBranch: "main",
          priority: 0,
          stage: "analysis",
          status: "active",
        },
      ]);
      throw new Error("changed its mind");
    }),
  ).rejects.toThrow("changed its mind");
  expect(storage.tally.jobs()).toEqual({ queued: 3, running: 0, done: 0, failed: 0, cancelled: 0 });
  expect(storage.tally.tasks()).toEqual([{ stage: "analysis", status: "active", n: 3 }]);
  const again = await openTestStorage({ path: first.path });
  expect(again.storage.tally.jobs()).toEqual(storage.tally.jobs());
  expect(again.storage.tally.tasks()).toEqual(storage.tally.tasks());
});
