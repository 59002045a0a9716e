/**
 * The demonstration inside the composition: makes the sample repository on a volume that the scheduler sees too, hands in one
 * work item over HTTP and shows it as it goes to `done`. `node in_containers.mjs [<work item id>]`
 */
import { access } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { loadConfig } from "@orchestrator/shared/config/load_config.ts";
import * as v from "valibot";
import { makeDisplay, stageLine } from "./display.ts";
import { makeSampleRepository } from "./sample_repository.ts";
import { hasEnded, taskViewSchema } from "./task_view.ts";

const SCHEDULER = "http://scheduler:8080";
const FOLDER = "/demo";
const REPO = "greeter";
/** In the stager's container, where nothing else listens. */
const APP_PORT = 9000;
const POLL_MS = 200;
const TIME_LIMIT_MS = 180_000;

const IDENTITY = { name: "Sample", email: "sample@localhost" };
const gitEnvironment = {
  PATH: process.env["PATH"] ?? "/usr/bin:/bin",
  HOME: FOLDER,
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_AUTHOR_NAME: IDENTITY.name,
  GIT_AUTHOR_EMAIL: IDENTITY.email,
  GIT_COMMITTER_NAME: IDENTITY.name,
  GIT_COMMITTER_EMAIL: IDENTITY.email,
};

const makeRepository = async (): Promise<void> => {
  const isThere = await access(`${FOLDER}/${REPO}.git`).then(
    () => true,
    () => false,
  );
  if (isThere) return;
  await makeSampleRepository({ directory: FOLDER, command: ["node"], port: APP_PORT, env: gitEnvironment });
};

/** The scheduler's token, from where it found or made it. */
const readToken = (): string => {
  const loaded = loadConfig(process.env, { service: "scheduler" });
  if (loaded.kind === "invalid") throw new Error(loaded.faults.join("\n"));
  if (loaded.config.apiToken === null) throw new Error("the scheduler's token is not on its data volume yet");
  return loaded.config.apiToken;
};

const play = async (workItemId: string): Promise<void> => {
  const display = makeDisplay(
    (text) => process.stdout.write(text),
    () => performance.now(),
  );
  const signal = AbortSignal.timeout(TIME_LIMIT_MS);
  const headers = { authorization: `Bearer ${readToken()}`, "content-type": "application/json" };
  await makeRepository();
  const item = { work_item_id: workItemId, title: "Add GET /greet?name= to the server", repo: REPO };
  const posted = await fetch(`${SCHEDULER}/tasks`, { method: "POST", headers, body: JSON.stringify(item), signal });
  const answer = await posted.text();
  if (posted.status === 422 && answer.includes("unknown_repo")) {
    throw new Error(
      "the scheduler does not know the sample: start it with ORCH_CONFIG=/app/demo.yaml in the environment",
    );
  }
  if (posted.status !== 201) throw new Error(`POST /tasks answered ${posted.status}, expected 201: ${answer}`);
  display.line(`${workItemId} posted: ${item.title}`);

  let shownEventId = 0;
  for (;;) {
    const response = await fetch(`${SCHEDULER}/tasks/${workItemId}`, { headers, signal });
    const task = v.parse(taskViewSchema, await response.json());
    for (const event of task.events.filter(({ id }) => id > shownEventId)) {
      const run = task.runs.find(({ id }) => id === event.run_id);
      const line = stageLine(event, run);
      if (line !== null) display.line(line);
      shownEventId = event.id;
    }
    if (hasEnded(task)) {
      display.line(`${workItemId} is ${task.status}`);
      if (task.status === "done") return;
      throw new Error(
        `the task is ${task.status} in ${task.stage}, expected done: ${task.blocked_reason ?? "no reason"}`,
      );
    }
    await delay(POLL_MS, undefined, { signal });
  }
};

await play(process.argv[2] ?? "ORCH-115");
