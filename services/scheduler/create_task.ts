import type { Config } from "@orchestrator/shared/config/config.ts";
import { findStage } from "@orchestrator/shared/pipeline.ts";
import type { NewTask } from "@orchestrator/shared/schemas/new_task.ts";
import { insertTask } from "@orchestrator/shared/storage/insert_task.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";
import { enqueueStage } from "./enqueue_stage.ts";
import type { CreateTaskResult } from "./scheduler_api.ts";

/** Takes a work item in: the task, its first job (none where its first stage waits for approval) and the event, in one transaction. */
export const createTask = async (
  { storage, config }: { storage: Storage; config: Pick<Config, "repos" | "pipeline"> },
  input: NewTask,
): Promise<CreateTaskResult> => {
  const repo = Object.hasOwn(config.repos, input.repo) ? config.repos[input.repo] : undefined;
  if (!repo) {
    const known = Object.keys(config.repos).join(", ") || "none";
    return {
      kind: "unknown_repo",
      detail: `there is no repository '${input.repo}' in the configuration; configured: ${known}`,
    };
  }
  const stageName = input.stage ?? config.pipeline.stages[0]?.name ?? "";
  const stage = findStage(config.pipeline, stageName);
  if (!stage) {
    const stages = config.pipeline.stages.map(({ name }) => name).join(", ");
    return { kind: "invalid", errors: [{ path: "stage", message: `must be a stage of the pipeline: ${stages}` }] };
  }
  const branch = input.branch ?? `work/${input.workItemId}`;
  const baseBranch = input.baseBranch ?? repo.baseBranch;
  if (branch === baseBranch || branch === repo.baseBranch) {
    const message = `must not be the base branch (${baseBranch}) nor the repository's default branch (${repo.baseBranch})`;
    return { kind: "invalid", errors: [{ path: "branch", message }] };
  }

  return storage.write(async (tx) => {
    const inserted = await insertTask(tx, {
      workItemId: input.workItemId,
      title: input.title,
      description: input.description,
      repo: input.repo,
      branch,
      baseBranch,
      priority: input.priority,
      stage: stage.name,
      status: stage.approval ? "waiting" : "active",
    });
    switch (inserted.kind) {
      case "work_item_exists":
        return { kind: "work_item_exists", detail: `there is a task for ${input.workItemId} already` };
      case "branch_taken":
        return {
          kind: "branch_taken",
          detail: `the branch ${branch} of ${input.repo} belongs to ${inserted.by}, which is not finished`,
        };
      case "inserted": {
        const { task } = inserted;
        await tx.event("created", { taskId: task.id }, { stage: task.stage, repo: task.repo, branch: task.branch });
        if (task.status === "waiting") await tx.event("waiting", { taskId: task.id }, { stage: task.stage });
        else await enqueueStage(tx, task, stage, null);
        return { kind: "created", task };
      }
    }
  });
};
