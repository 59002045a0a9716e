import { readdir } from "node:fs/promises";
import { setImmediate } from "node:timers/promises";
import { Mutex } from "@orchestrator/shared/mutex.ts";
import { artifactPath, findStage } from "@orchestrator/shared/pipeline.ts";
import type { Task } from "@orchestrator/shared/schemas/rows.ts";
import { FencedOffError } from "@orchestrator/shared/storage/check_epoch.ts";
import { findEarlierRun } from "@orchestrator/shared/storage/find_earlier_run.ts";
import { readTask } from "@orchestrator/shared/storage/read_task.ts";
import type { ActiveRun } from "./active_runs.ts";
import { kindOf } from "./git/careful_files.ts";
import { isKept } from "./git/is_kept.ts";
import { removeWorkspace, workspacePath } from "./git/workspace.ts";
import { isHalfMade, itsWorkItem } from "./git/workspace_files.ts";
import { fenceOf, type RunContext } from "./run_context.ts";
import { endLeftIn, keep } from "./run_work.ts";

// The workspace of a task that is over is removed: all that was in it is in the repository, but what that ignores. That is so
// of a task that is done; of one that was cancelled only once what its last agent left is kept under a ref.

/**
 * Clears up after a run has ended, where that was its task's end. Where another run works on the task (the reaper gave the job
 * to it) that is left to the other one. Never rejects: what could not be removed is removed at the next start.
 */
export const clearUpAfter = async (context: RunContext, run: ActiveRun): Promise<void> => {
  const { activeRuns, storage, log, signal } = context;
  const { id, workItemId } = run.claim.task;
  if (activeRuns.all().some((other) => other !== run && other.claim.task.id === id)) return;
  try {
    const task = await readTask(storage, { id });
    if (task !== null) await clearUp(context, task);
  } catch (error) {
    if (!signal.aborted && !(error instanceof FencedOffError)) log.warn({ err: error, workItemId }, NOT_REMOVED);
  }
};

const NOT_REMOVED = "the workspace of a task that is over could not be removed; the next start tries again";

/**
 * Begins to remove the workspaces of tasks that are over and that no monitor clears up after: those that an earlier scheduler has
 * left, because it was killed or could not remove them, and from then on those of tasks that are cancelled while no run is under
 * way. Which the earlier ones are is found out before this resolves, while no run is under way: by what stands in the folder of
 * workspaces, so that it costs nothing for what has been cleared up. They are removed in the background, one after the other.
 */
export const startClearingUp = async (context: RunContext): Promise<{ stop(): Promise<void> }> => {
  const { storage } = context;
  const turns = new Mutex();
  let stopped = false;
  /** Nothing is begun any more once it is stopped: the next start finds what is left. */
  const inTurn = (find: () => Promise<Task | null>): void =>
    void turns.run(async () => {
      if (!stopped) await clearUpLeft(context, find);
    });
  for (const task of await findLeft(context)) inTurn(async () => task);
  const unsubscribe = storage.onCommitted(({ events }) => {
    for (const { kind, taskId, runId } of events) {
      if (kind === "cancelled" && taskId !== null) inTurn(() => findUnattended(context, taskId, runId));
    }
  });
  return {
    stop: async () => {
      stopped = true;
      unsubscribe();
      await turns.run(async () => undefined);
    },
  };
};

/** The task that was cancelled, unless the run that was under way is at work here still: then its monitor clears up. */
const findUnattended = async (
  { activeRuns, storage }: RunContext,
  id: number,
  runId: number | null,
): Promise<Task | null> => {
  // A claim that was committed together with the cancel stands among the active runs only a few promises later.
  await setImmediate();
  return activeRuns.all().some((run) => run.claim.run.id === runId) ? null : readTask(storage, { id });
};

const findLeft = async ({ config, storage, log }: RunContext): Promise<Task[]> => {
  const left: Task[] = [];
  try {
    const names = new Set((await readdir(config.workspacesDir)).map(itsWorkItem));
    for (const workItemId of names) {
      const task = await readTask(storage, { workItemId });
      if (task !== null && isOver(task)) left.push(task);
    }
  } catch (error) {
    log.warn({ err: error, folder: config.workspacesDir }, "it could not be seen which workspaces are left over");
  }
  return left;
};

const isOver = ({ status }: Task): boolean => status === "done" || status === "cancelled";

/** Never rejects. */
const clearUpLeft = async (context: RunContext, find: () => Promise<Task | null>): Promise<void> => {
  const { config, log, signal } = context;
  let workItemId: string | undefined;
  try {
    if (signal.aborted) return;
    const task = await find();
    if (task === null) return;
    ({ workItemId } = task);
    // A task that was cancelled before its first run has none.
    const isThere = (await kindOf(workspacePath(config.workspacesDir, workItemId))) !== "absent";
    await clearUp(context, task);
    if (isThere) log.info({ workItemId }, "removed the workspace that was left of a task that is over");
  } catch (error) {
    if (signal.aborted || error instanceof FencedOffError) return;
    log.warn({ err: error, workItemId }, NOT_REMOVED);
  }
};

const clearUp = async (context: RunContext, task: Task): Promise<void> => {
  if (!isOver(task)) return;
  if (task.status === "cancelled") await keepLeft(context, task);
  await fenceOf(context)();
  await removeWorkspace(context.config.workspacesDir, task.workItemId);
};

/** Keeps what the last agent of a cancelled task left, unless that has been done. Without a head no agent was ever started. */
const keepLeft = async (context: RunContext, task: Task): Promise<void> => {
  const { config, storage, mirrors, signal } = context;
  const workspace = workspacePath(config.workspacesDir, task.workItemId);
  if ((await kindOf(workspace)) !== "directory" || (await isHalfMade(workspace))) return;
  const author = await findEarlierRun(storage, task.id, Number.MAX_SAFE_INTEGER);
  if (author === null || task.head === null) return;
  const mirror = mirrors.get(task.repo);
  if (await isKept(mirror, author.id, { signal })) return;
  await endLeftIn(context, workspace);
  const stage = findStage(config.pipeline, author.stage);
  const artifact = stage === undefined ? null : artifactPath(stage, task.workItemId);
  await keep(
    context,
    null,
    { place: { mirror, start: task.head, artifact }, workspace, author },
    { signal, onWait: () => {} },
  );
};
