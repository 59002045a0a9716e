import type { Config } from "@orchestrator/shared/config/config.ts";
import { findStage, type Stage } from "@orchestrator/shared/pipeline.ts";
import type { NewTask } from "@orchestrator/shared/schemas/new_task.ts";
import { enqueueJobs } from "@orchestrator/shared/storage/enqueue_job.ts";
import { gather } from "@orchestrator/shared/storage/gather.ts";
import { type InsertTaskResult, insertTasks, type NewTaskRow } from "@orchestrator/shared/storage/insert_task.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";
import type { Tx } from "@orchestrator/shared/storage/tx.ts";
import { jobOfStage } from "./enqueue_stage.ts";
import type { CreateTaskResult } from "./scheduler_api.ts";

/** A work item that may be taken in, and the stage in which it begins. */
interface Accepted {
  row: NewTaskRow;
  stage: Stage;
}

/**
 * Makes what takes work items in: each the task, its first job (none where its first stage waits for approval) and the
 * events, in one transaction, which all that come at the same time share.
 */
export const taskCreator = ({
  storage,
  config,
}: {
  storage: Storage;
  config: Pick<Config, "repos" | "pipeline">;
}): ((input: NewTask) => Promise<CreateTaskResult>) => {
  const write = gather(storage, insertAll);
  return async (input) => {
    const judged = judge(input, config);
    if (judged.kind !== "accepted") return judged;
    const { row } = judged.accepted;
    const inserted = await write(judged.accepted);
    switch (inserted.kind) {
      case "inserted":
        return { kind: "created", task: inserted.task };
      case "work_item_exists":
        return { kind: "work_item_exists", detail: `there is a task for ${row.workItemId} already` };
      case "branch_taken":
        return {
          kind: "branch_taken",
          detail: `the branch ${row.branch} of ${row.repo} belongs to ${inserted.by}, which is not finished`,
        };
    }
  };
};

const insertAll = async (tx: Tx, accepted: readonly Accepted[]): Promise<InsertTaskResult[]> => {
  const results = await insertTasks(
    tx,
    accepted.map(({ row }) => row),
  );
  const made = results.flatMap((result, index) =>
    result.kind === "inserted" ? [{ task: result.task, stage: accepted[index]!.stage }] : [],
  );
  await tx.eventOfEach(
    "created",
    made.map(({ task: { id, stage, repo, branch } }) => ({ taskId: id, detail: { stage, repo, branch } })),
  );
  const waiting = made.filter(({ task }) => task.status === "waiting");
  await tx.eventOfEach(
    "waiting",
    waiting.map(({ task: { id, stage } }) => ({ taskId: id, detail: { stage } })),
  );
  const active = made.filter(({ task }) => task.status === "active");
  await enqueueJobs(
    tx,
    active.map(({ task, stage }) => jobOfStage(tx, task, stage, null)),
  );
  return results;
};

type Judged =
  | { kind: "accepted"; accepted: Accepted }
  | { kind: "unknown_repo"; detail: string }
  | Extract<CreateTaskResult, { kind: "invalid" }>;

/** What needs the configuration to be judged, but not the database. */
const judge = (input: NewTask, config: Pick<Config, "repos" | "pipeline">): Judged => {
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
  const row: NewTaskRow = {
    ...{ workItemId: input.workItemId, title: input.title, description: input.description, priority: input.priority },
    ...{ repo: input.repo, branch, baseBranch, stage: stage.name, status: stage.approval ? "waiting" : "active" },
  };
  return { kind: "accepted", accepted: { row, stage } };
};
