import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { STAGING_STAGE } from "@orchestrator/shared/domain.ts";
import { artifactPath, DEFAULT_PIPELINE, findStage } from "@orchestrator/shared/pipeline.ts";
import * as v from "valibot";
import { stringify } from "yaml";
import { type Display, stageLine } from "./display.ts";
import { baseEnvironment } from "./environment.ts";
import { freePorts } from "./ports.ts";
import { type Runtime, runtimeCommands } from "./runtimes.ts";
import { makeSampleRepository } from "./sample_repository.ts";
import { type Service, startService } from "./services.ts";
import { makeStagingProgress } from "./staging_progress.ts";
import { hasEnded, stageMoves, type TaskView, taskViewSchema } from "./task_view.ts";

const POLL_MS = 100;
const WORK_ITEM = {
  work_item_id: "ORCH-115",
  title: "Add GET /greet?name= to the server",
  description: "It greets by name, and the world where no name is given.",
  repo: "greeter",
};
const BRANCH = `work/${WORK_ITEM.work_item_id}`;
const scriptedAgent = fileURLToPath(new URL("scripted_agent.js", import.meta.url));

export interface PlayOptions {
  /** What the services, the agent and the sample project run on. */
  runtime: Runtime;
  /** True: the first development passes its tests and fails in staging. */
  failStaging: boolean;
  /** Everything is written here. */
  directory: string;
  display: Display;
  signal: AbortSignal;
}

/** What there is so far: for whoever has to stop it, or to explain what went wrong. */
export interface Scene {
  services: Service[];
  task: TaskView | null;
}

/**
 * Plays the demo: a sample repository, both services, one work item from `analysis` to `done`. Fills `scene` as it goes and
 * rejects where anything is not as it should be; the services are still running when it has settled.
 */
export const play = async (options: PlayOptions, scene: Scene): Promise<void> => {
  const { runtime, directory, display, signal } = options;
  const commands = runtimeCommands(runtime);
  const env = baseEnvironment({ directory, binDirectory: commands.binDirectory });
  const [schedulerPort = 0, stagerPort = 0, appPort = 0] = await freePorts(3);

  const repository = await makeSampleRepository({ directory, command: commands.inProject, port: appPort, env });
  const configPath = join(directory, "orchestrator.yaml");
  await writeFile(configPath, config(commands.javascript, options.failStaging));

  const serviceEnv = {
    ...env,
    ORCH_PORT: String(schedulerPort),
    ORCH_STAGER_PORT: String(stagerPort),
    ORCH_STAGER_URL: `http://127.0.0.1:${stagerPort}`,
    ORCH_CONFIG: configPath,
    ORCH_DATA_DIR: join(directory, "data"),
    ORCH_REPOS_DIR: join(directory, "repos"),
    ORCH_WORKSPACES_DIR: join(directory, "workspaces"),
    ORCH_SCRATCH_DIR: join(directory, "scratch"),
    // Often enough that the reaper sweeps in a demo of a few seconds.
    ORCH_REAPER_INTERVAL_MS: "500",
    // Whoever interrupts the demo does not want to wait for an agent.
    ORCH_DRAIN_MS: "500",
    ORCH_KILL_GRACE_MS: "2000",
  };
  const start = async (name: Service["name"], port: number): Promise<Service> => {
    const service = await startService({ name, port, command: commands.typescript, directory, env: serviceEnv });
    scene.services.push(service);
    return service;
  };
  const scheduler = await start("scheduler", schedulerPort);
  const stager = await start("stager", stagerPort);
  await Promise.all([scheduler.ready(signal), stager.ready(signal)]);
  display.line(`scheduler ready on ${scheduler.url}, stager on ${stager.url}`);

  await postTask(scheduler.url, signal);
  display.line(`${WORK_ITEM.work_item_id} posted: ${WORK_ITEM.title}`);
  const task = await followTask(scheduler.url, options, scene);
  if (task.status !== "done") {
    throw new Error(
      `the task is ${task.status} in ${task.stage}, expected done: ${task.blocked_reason ?? "no reason"}`,
    );
  }

  const stagingLog = artifactPath(findStage(DEFAULT_PIPELINE, STAGING_STAGE)!, WORK_ITEM.work_item_id);
  display.section(`${stagingLog} on ${BRANCH}`, await repository.git("show", `${BRANCH}:${stagingLog}`));
  display.section(
    `commits on ${BRANCH}`,
    await repository.git("log", "--format=%h %<(14,trunc)%an %s", `main..${BRANCH}`),
  );
  display.section(
    "history",
    stageMoves(task.events)
      .map(({ at, from, to }) => `${at}  ${from} → ${to}`)
      .join("\n"),
  );
  const queue: unknown = await (await fetch(`${scheduler.url}/queue`, { signal })).json();
  display.section("GET /queue", JSON.stringify(queue, null, 2));
};

/** The agents' and the repository's part of the configuration: one program works for every agent. */
const config = (javascript: readonly string[], failStaging: boolean): string =>
  stringify({
    repos: { [WORK_ITEM.repo]: { url: "./greeter.git", base_branch: "main", push: true } },
    agents: {
      default: { command: [...javascript, scriptedAgent, ...(failStaging ? ["--slip"] : [])], timeout_s: 60 },
    },
  });

const postTask = async (url: string, signal: AbortSignal): Promise<void> => {
  const response = await fetch(`${url}/tasks`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(WORK_ITEM),
    signal,
  });
  const answer = await response.text();
  if (response.status !== 201) throw new Error(`POST /tasks answered ${response.status}, expected 201: ${answer}`);
};

/** Shows what happens to the task until it goes no further by itself. */
const followTask = async (url: string, { display, signal }: PlayOptions, scene: Scene): Promise<TaskView> => {
  const stagingProgress = makeStagingProgress();
  let shownEventId = 0;
  for (;;) {
    const response = await fetch(`${url}/tasks/${WORK_ITEM.work_item_id}`, { signal });
    const task = v.parse(taskViewSchema, await response.json());
    scene.task = task;
    for (const step of await stagingProgress(task.runs)) display.line(`  ${step}`);
    for (const event of task.events.filter(({ id }) => id > shownEventId)) {
      const line = stageLine(
        event,
        task.runs.find(({ id }) => id === event.run_id),
      );
      if (line !== null) display.line(line);
      shownEventId = event.id;
    }
    if (hasEnded(task)) return task;
    const ended = scene.services.find((service) => service.ended() !== null);
    if (ended) throw new Error(`the ${ended.name} ended in the middle of the demo: ${ended.ended()}`);
    await delay(POLL_MS, undefined, { signal });
  }
};
