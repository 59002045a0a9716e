import { DEFER_MARKER } from "@orchestrator/shared/defer.ts";
import type { TaskStatus } from "@orchestrator/shared/domain.ts";
import type { PauseRequest } from "@orchestrator/shared/schemas/actions.ts";
import type { Task } from "@orchestrator/shared/schemas/rows.ts";
import { type Act, pick, taskAnswer } from "./act.ts";
import { type Model, type ModelTask, stageOf } from "./model.ts";
import type { PauseTargetName, Step } from "./step.ts";
import { PIPELINE } from "./surroundings.ts";
import type { World } from "./world.ts";

type Of<D extends Step["do"]> = Extract<Step, { do: D }>;

const UNFINISHED: readonly TaskStatus[] = ["active", "waiting", "blocked"];

export const create = (model: Model, step: Of<"create">): Act => {
  const workItemId = `ORCH-${step.item}`;
  const branch = step.sharedBranch ? "shared" : `work/${workItemId}`;
  const { repo, priority } = step;
  return {
    on: workItemId,
    predict: () => {
      const id = model.nextTaskId++;
      if (model.tasks.some((task) => task.workItemId === workItemId)) return "work_item_exists";
      const isTaken = (task: ModelTask) =>
        task.repo === repo && task.branch === branch && UNFINISHED.includes(task.status);
      if (model.tasks.some(isTaken)) return "branch_taken";
      const stage = stageOf(step.stage ?? PIPELINE.stages[0]!.name);
      const task: ModelTask = {
        ...{ id, workItemId, repo, branch, priority, stage: stage.name },
        ...{ status: stage.approval ? "waiting" : "active", returns: 0, head: null, leaseRunId: null, blocked: null },
      };
      model.tasks.push(task);
      model.event("created", { taskId: task.id, detail: { stage: task.stage } });
      if (stage.approval) model.event("waiting", { taskId: task.id, detail: { stage: task.stage } });
      else model.enqueue(task, null);
      return "created";
    },
    perform: async ({ scheduler }) => {
      const created = await scheduler.api.createTask({
        // Whoever writes the marker into a title must not thereby have put off a staging run.
        ...{ workItemId, title: `Title with ${DEFER_MARKER} in it`, description: "", repo, priority },
        ...(step.sharedBranch ? { branch } : {}),
        ...(step.stage === null ? {} : { stage: step.stage }),
      });
      return created.kind;
    },
  };
};

export const cancel = (model: Model, { at, reason }: Of<"cancel">): Act | null => {
  const task = pick(model.tasks, at);
  if (!task) return null;
  return onTask(
    model,
    task,
    UNFINISHED,
    () => {
      const job = model.activeJob(task.id);
      const about = { taskId: task.id, jobId: job?.id ?? null, runId: job?.runId ?? null };
      model.event("cancelled", { ...about, detail: { stage: task.stage, by: "person" } });
      Object.assign(task, { status: "cancelled", leaseRunId: null, blocked: null });
      if (!job) return;
      const ending = { outcome: "cancelled", class: null, reason: "a person cancelled the task" } as const;
      if (reason) Object.assign(ending, { reason: `${ending.reason}: no longer wanted` });
      if (job.status === "running") {
        Object.assign(model.run(job.runId!), ending);
        model.sawEnd(model.run(job.runId!));
        const owner = model.process.owner(job.id, job.runId);
        if (owner) model.process.end(owner, ending);
      }
      job.status = "cancelled";
    },
    ({ scheduler }) => scheduler.api.cancelTask({ id: task.id }, reason ? { reason: "no longer wanted" } : {}),
  );
};

export const retry = (model: Model, { at, note }: Of<"retry">): Act | null => {
  const task = pick(model.tasks, at);
  if (!task) return null;
  return onTask(
    model,
    task,
    ["blocked"],
    () => {
      const why = note ? "try the other way" : "a person has it tried again";
      Object.assign(task, { status: "active", blocked: null, returns: 0 });
      const job = model.enqueue(task, why);
      model.event("retried", { taskId: task.id, jobId: job.id, detail: { stage: task.stage, by: "person" } });
    },
    ({ scheduler }) =>
      scheduler.api.retryTask({ workItemId: task.workItemId }, note ? { note: "try the other way" } : {}),
  );
};

export const approve = (model: Model, { at, wrongStage }: Of<"approve">): Act | null => {
  const task = pick(model.tasks, at);
  if (!task) return null;
  return onTask(
    model,
    task,
    wrongStage ? [] : ["waiting"],
    () => {
      Object.assign(task, { status: "active" });
      const cameBack = model.events.findLast(
        ({ kind, taskId }) => taskId === task.id && (kind === "advanced" || kind === "returned"),
      );
      const why = cameBack?.kind === "returned" ? (cameBack.detail["reason"] as string) : null;
      const job = model.enqueue(task, why);
      model.event("approved", { taskId: task.id, jobId: job.id, detail: { stage: task.stage } });
    },
    ({ scheduler }) => scheduler.api.approveTask({ id: task.id }, { stage: wrongStage ? "nowhere" : task.stage }),
  );
};

export const sendBack = (model: Model, { at, to }: Of<"return">): Act | null => {
  const task = pick(model.tasks, at);
  if (!task) return null;
  const from = task.stage;
  const names: readonly string[] = PIPELINE.stages.map(({ name }) => name);
  const isEarlier = names.indexOf(to) < names.indexOf(from);
  const reason = `sent back from ${from}`;
  return onTask(
    model,
    task,
    ["waiting", "blocked"],
    () => {
      if (!isEarlier) return "invalid";
      const waits = stageOf(to).approval;
      Object.assign(task, {
        status: waits ? "waiting" : "active",
        stage: to,
        blocked: null,
        returns: task.returns + 1,
      });
      const job = waits ? null : model.enqueue(task, reason);
      model.event("returned", { taskId: task.id, jobId: job?.id ?? null, detail: { from, to, reason, by: "person" } });
      if (waits) model.event("waiting", { taskId: task.id, detail: { stage: to } });
      return undefined;
    },
    ({ scheduler }) => scheduler.api.returnTask({ id: task.id }, { to, reason }),
  );
};

const onTask = (
  model: Model,
  task: ModelTask,
  allowedIn: readonly TaskStatus[],
  change: () => string | undefined,
  act: (world: World) => Promise<{ kind: string } | { kind: "ok"; task: Task }>,
): Act => ({
  on: `${task.workItemId} (${task.status} in ${task.stage})`,
  predict: () => {
    if (!allowedIn.includes(task.status)) return { kind: "invalid_state" };
    const refusal = change();
    return refusal === undefined ? taskAnswer(model, task.id) : { kind: refusal };
  },
  perform: async (world) => {
    const answer = await act(world);
    if (!("task" in answer)) return { kind: answer.kind };
    const { status, stage, returns } = answer.task;
    return { kind: "ok", status, stage, returns };
  },
});

const targetOf = (what: PauseTargetName): PauseRequest => {
  const [kind = "", name = ""] = what.split(":");
  if (kind === "agent") return { agent: name };
  if (kind === "repo") return { repo: name };
  return kind === "staging" ? { staging: true } : {};
};

export const pause = (model: Model, { what, reason }: Of<"pause">): Act => ({
  predict: () => {
    if (model.paused.get(what)?.reason !== reason) {
      model.pause(what, reason, { reason, by: "person" });
      // What a person has paused is theirs to end.
      model.process.faults.own.delete(what);
    }
    return model.pauses();
  },
  perform: async ({ scheduler }) => pausedIn(await scheduler.api.pauseQueue({ ...targetOf(what), reason })),
});

export const resume = (model: Model, { what }: Of<"resume">): Act => ({
  predict: () => {
    for (const name of what === "all" ? model.pauses() : [what]) {
      if (!model.paused.delete(name)) continue;
      model.event("resumed", { detail: { what: name, by: "person" } });
      model.process.faults.own.delete(name);
    }
    return model.pauses();
  },
  perform: async ({ scheduler }) => pausedIn(await scheduler.api.resumeQueue(targetOf(what))),
});

const pausedIn = (answer: { kind: string } | { kind: "ok"; paused: { what: string }[] }): unknown =>
  "paused" in answer ? answer.paused.map(({ what }) => what) : answer;
