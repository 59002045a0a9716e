import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Clock, systemClock } from "@orchestrator/shared/clock.ts";
import type { Config } from "@orchestrator/shared/config/config.ts";
import { createLog, type Log } from "@orchestrator/shared/log.ts";
import { DEFAULT_PIPELINE } from "@orchestrator/shared/pipeline.ts";
import { noPoints, type Points } from "@orchestrator/shared/points.ts";
import type { NewTask } from "@orchestrator/shared/schemas/new_task.ts";
import type { Task } from "@orchestrator/shared/schemas/rows.ts";
import { findTask, type TaskHistory } from "@orchestrator/shared/storage/read_tasks.ts";
import { onTestFinished } from "vitest";
import { type Scheduler, startScheduler } from "../../services/scheduler/scheduler.ts";
import { makeRemote } from "./remote_repository.ts";
import { tempFolder } from "./temp_folder.ts";

const AGENT = fileURLToPath(new URL("agent.sh", import.meta.url));

/** A place with everything a scheduler needs: a remote repository, folders, and hooks for the scripted agent. */
export interface Site {
  folder: string;
  remote: string;
  config: Config;
  /** Makes the agent run `script` at the beginning of `stage` (or `any`). */
  hook(stage: string, script: string): Promise<void>;
}

export const makeSite = async (over: Partial<Config> = {}): Promise<Site> => {
  const folder = await tempFolder();
  const remote = await makeRemote(folder);
  const hooks = join(folder, "hooks");
  await mkdir(hooks);
  const config: Config = {
    host: "127.0.0.1",
    port: 0,
    stagerHost: "127.0.0.1",
    stagerPort: 0,
    stagerUrl: "http://127.0.0.1:9",
    dataDir: join(folder, "data"),
    reposDir: join(folder, "data", "repos"),
    workspacesDir: join(folder, "data", "workspaces"),
    scratchDir: join(folder, "data", "scratch"),
    dbUrl: `file:${join(folder, "data", "orchestrator.db")}`,
    dbAuthToken: null,
    dbSynchronous: "FULL",
    configPath: join(folder, "orchestrator.yaml"),
    logLevel: "silent",
    apiToken: null,
    stagerToken: null,
    standby: false,
    leaseTtlMs: 15_000,
    reaperIntervalMs: 3_600_000,
    reaperGraceMs: 60_000,
    finalizerMaxMs: 900_000,
    launchTimeoutMs: 900_000,
    jobTimeoutMs: 7_200_000,
    stallTimeoutMs: 1_800_000,
    killGraceMs: 2_000,
    drainMs: 0,
    logMaxBytes: 1024 * 1024,
    logKeepBytes: 1024 ** 3,
    finalizerLivenessEnabled: true,
    stagingRunnerEnabled: false,
    stagingDeferDelayMs: 30_000,
    stagingMaxDefers: 10,
    stagingDeferMaxMs: 6 * 3_600_000,
    repos: {
      shop: { url: remote, baseBranch: "main", push: true, merge: "none", environment: "shop", plan: "branch" },
    },
    agents: {
      default: {
        command: ["/bin/sh", AGENT],
        model: null,
        timeoutMs: 7_200_000,
        stallTimeoutMs: 1_800_000,
        env: { AGENT_HOOKS: hooks },
      },
    },
    limits: { total: 4, perRepo: {}, perAgent: {} },
    notify: null,
    pipeline: DEFAULT_PIPELINE,
    faultPoint: null,
    gitNetworkConfig: null,
    parentEnv: { PATH: process.env.PATH ?? "", HOME: folder },
    ...over,
  };
  return {
    folder,
    remote,
    config,
    hook: (stage, script) => writeFile(join(hooks, `${stage}.sh`), script),
  };
};

/** Starts a scheduler in this process; it is stopped when the test has finished. */
export const startTestScheduler = async (
  site: Site,
  options: {
    points?: Points;
    clock?: Clock;
    log?: Log;
    busyLimitMs?: number;
    onFencedOff?: (error: Error) => void;
    config?: Partial<Config>;
    guardedBy?: "kernel" | "lease";
    signal?: AbortSignal;
  } = {},
): Promise<Scheduler> => {
  const config = { ...site.config, ...options.config };
  const scheduler = await startScheduler({
    config,
    clock: options.clock ?? systemClock,
    log: options.log ?? createLog({ level: config.logLevel, service: "scheduler", secrets: [] }),
    ...(options.busyLimitMs === undefined ? {} : { busyLimitMs: options.busyLimitMs }),
    points: options.points ?? noPoints,
    random: () => 0,
    signal: options.signal ?? new AbortController().signal,
    ...(options.guardedBy ? { guardedBy: options.guardedBy } : {}),
    onFencedOff: options.onFencedOff ?? (() => {}),
  });
  onTestFinished(() => scheduler.stop());
  return scheduler;
};

/** Posts a work item; fields that are left out are sensible. */
export const postTask = async (
  scheduler: Scheduler,
  task: Partial<NewTask> & { workItemId: string },
): Promise<Task> => {
  const created = await scheduler.api.createTask({
    title: "A title",
    description: "",
    repo: "shop",
    priority: 0,
    ...task,
  });
  if (created.kind !== "created") throw new Error(`not created: ${JSON.stringify(created)}`);
  return created.task;
};

/** Resolves once `seen` finds what it looks for in the task's history, looked at after each commit. */
export const taskWhen = async (
  scheduler: Scheduler,
  workItemId: string,
  seen: (history: TaskHistory) => boolean,
): Promise<TaskHistory> => {
  let wake = () => {};
  const unsubscribe = scheduler.context.storage.onCommitted(() => wake());
  try {
    for (;;) {
      const committed = new Promise<void>((resolve) => {
        wake = resolve;
      });
      const history = await findTask(scheduler.context.storage, { workItemId });
      if (history && seen(history)) return history;
      await committed;
    }
  } finally {
    unsubscribe();
  }
};
