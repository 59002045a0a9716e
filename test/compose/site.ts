import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import type { TaskView } from "../demo/task_view.ts";
import { API_PORT, compose, containersOf, inside, inspect, SCHEDULER } from "./engine.ts";

export const API = `http://127.0.0.1:${API_PORT}`;

/** Asks again until there is an answer. @throws after `timeoutMs` (default 60 s), saying what was waited for. */
export const until = async <T>(
  what: string,
  look: () => Promise<T | null | undefined | false>,
  timeoutMs = 60_000,
  pauseMs = 100,
): Promise<T> => {
  const givenUpAt = performance.now() + timeoutMs;
  for (;;) {
    const found = await look();
    if (found !== null && found !== undefined && found !== false) return found;
    if (performance.now() > givenUpAt) throw new Error(`not seen within ${timeoutMs / 1000} s: ${what}`);
    await delay(pauseMs);
  }
};

/** True where the scheduler answers, from outside its container, that it is ready. */
export const isReady = async (): Promise<boolean> => {
  try {
    const answer = await fetch(`${API}/readyz`, { signal: AbortSignal.timeout(2000) });
    await answer.body?.cancel();
    return answer.ok;
  } catch {
    return false;
  }
};

export const healthy = (container: string): Promise<true> =>
  until(`${container} is healthy`, async () => (await inspect(container)).State.Health?.Status === "healthy" || null);

export const stagers = (): Promise<string[]> => containersOf("stager");
export const stager = async (): Promise<string> => {
  const [id] = await stagers();
  if (id === undefined) throw new Error("there is no stager");
  return id;
};

export const readToken = async (): Promise<string> =>
  (await inside(SCHEDULER, "cat /data/secrets/api.token")).stdout.trim();

const call = async (path: string, init: RequestInit = {}): Promise<Response> =>
  fetch(`${API}${path}`, {
    ...init,
    headers: { authorization: `Bearer ${await readToken()}`, "content-type": "application/json" },
    signal: AbortSignal.timeout(10_000),
  });

/** Brings both services up on fresh volumes, with the tests' repository and agent. */
export const bringUp = async (): Promise<void> => {
  await compose(["up", "--detach", "--no-build"]);
  await configure();
};

/** Writes a configuration as the first page says, and takes it up. */
export const configure = async (): Promise<void> => {
  const read = (name: string) => readFile(new URL(name, import.meta.url), "utf8");
  await inside(SCHEDULER, "cat > /data/orchestrator.yaml", { input: await read("orchestrator.yaml") });
  await inside(SCHEDULER, "cat > /demo/agent.sh && chmod +x /demo/agent.sh", { input: await read("agent.sh") });
  await inside(SCHEDULER, "sh -s", { input: await read("repository.sh") });
  await compose(["restart"]);
  await healthy(SCHEDULER);
  await healthy(await stager());
};

export const post = async (workItemId: string): Promise<void> => {
  const body = JSON.stringify({ work_item_id: workItemId, title: "A change", repo: "shop" });
  const answer = await call("/tasks", { method: "POST", body });
  if (answer.status !== 201) throw new Error(`${answer.status}: ${await answer.text()}`);
};

export const act = async (path: string, body: unknown): Promise<void> => {
  const answer = await call(path, { method: "POST", body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}: ${await answer.text()}`);
};

export const readTask = async (workItemId: string): Promise<TaskView> => {
  const answer = await call(`/tasks/${workItemId}`);
  if (!answer.ok) throw new Error(`${answer.status}: ${await answer.text()}`);
  return (await answer.json()) as TaskView;
};

export const done = (workItemId: string, timeoutMs = 90_000): Promise<TaskView> =>
  until(
    `${workItemId} is done`,
    async () => {
      const task = await readTask(workItemId);
      if (task.status === "blocked") throw new Error(`${workItemId} is blocked: ${task.blocked_reason}`);
      return task.status === "done" && task;
    },
    timeoutMs,
  );

/** Waits until an agent, or the stager, is at work for the item. */
export const working = (workItemId: string, stage: string): Promise<TaskView> =>
  until(`${workItemId} is worked in ${stage}`, async () => {
    const task = await readTask(workItemId);
    const run = task.runs.at(-1);
    if (run?.stage !== stage || run.outcome !== null) return null;
    return task.events.some((event) => event.kind === "started" && event.run_id === run.id) && task;
  });

/** The files that make an agent, or a staging run, wait. */
export const holdAgents = () => inside(SCHEDULER, "touch /demo/hold");
export const letAgentsGo = () => inside(SCHEDULER, "rm -f /demo/hold");
export const holdStaging = async () => inside(await stager(), "touch /scratch/cache/hold");
export const letStagingGo = async () => inside(await stager(), "rm -f /scratch/cache/hold");
