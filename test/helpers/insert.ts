import type { Job, Task } from "@orchestrator/shared/schemas/rows.ts";
import { enqueueJob } from "@orchestrator/shared/storage/enqueue_job.ts";
import { insertTasks, type NewTaskRow } from "@orchestrator/shared/storage/insert_task.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";

const FAR_AWAY = "2999-01-01T00:00:00.000Z";

/** Puts a task and its first job into the database. */
export const insertTaskWithJob = async (
  storage: Storage,
  task: Partial<NewTaskRow> & { workItemId: string },
  job: Partial<Pick<Job, "agent" | "priority" | "taskContent" | "maxAttempts" | "availableAt">> = {},
): Promise<{ task: Task; job: Job }> =>
  storage.write(async (tx) => {
    const [inserted] = await insertTasks(tx, [
      {
        title: `Title of ${task.workItemId}`,
        description: "",
        repo: "shop",
        branch: `work/${task.workItemId}`,
        baseBranch: "main",
        priority: 0,
        stage: "analysis",
        status: "active",
        ...task,
      },
    ]);
    if (inserted?.kind !== "inserted") throw new Error(`not inserted: ${inserted?.kind}`);
    const made = await enqueueJob(tx, {
      taskId: inserted.task.id,
      stage: inserted.task.stage,
      agent: "analyst",
      priority: inserted.task.priority,
      taskContent: inserted.task.title,
      maxAttempts: 3,
      availableAt: tx.now,
      ...job,
    });
    return { task: inserted.task, job: made };
  });

/** Puts a task into the database whose job is `running`, and nobody works on it: its agent, if there was one, is long gone. */
export const insertLostJob = async (
  storage: Storage,
  task: Partial<NewTaskRow> & { workItemId: string },
  { runId, attempt = 1 }: { runId: number; attempt?: number },
): Promise<Job> => {
  // Nobody claims it before it is made what it is to be.
  const { job } = await insertTaskWithJob(storage, task, { availableAt: FAR_AWAY });
  await storage.write(async (tx) => {
    await tx.run(
      `INSERT INTO agent_runs (id, job_id, task_id, stage, agent, attempt, pid, pid_started, started_at)
       VALUES (?, ?, ?, ?, ?, ?, 2147483000, 5, ?)`,
      [runId, job.id, job.taskId, job.stage, job.agent, attempt, tx.now],
    );
    await tx.run("UPDATE jobs SET status = 'running', run_id = ?, attempt = ?, started_at = ? WHERE id = ?", [
      runId,
      attempt,
      tx.now,
      job.id,
    ]);
    await tx.run("UPDATE tasks SET lease_run_id = ? WHERE id = ?", [runId, job.taskId]);
    tx.jobMoved("queued", "running");
  });
  return job;
};
