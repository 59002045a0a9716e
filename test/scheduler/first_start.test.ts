import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { systemClock } from "@orchestrator/shared/clock.ts";
import { loadConfig } from "@orchestrator/shared/config/load_config.ts";
import { createLog } from "@orchestrator/shared/log.ts";
import { expect, test } from "vitest";
import { createSchedulerApp } from "../../services/scheduler/app.ts";
import { firstStart } from "../../services/scheduler/first_start.ts";
import type { SchedulerApi } from "../../services/scheduler/scheduler_api.ts";

const sample = fileURLToPath(new URL("../../services/orchestrator.sample.yaml", import.meta.url));

const load = async (env: Record<string, string>) => {
  const folder = await mkdtemp(join(tmpdir(), "first-start-"));
  try {
    const loaded = loadConfig(env, { cwd: folder, service: "scheduler" });
    if (loaded.kind === "invalid") throw new Error(loaded.faults.join("\n"));
    return loaded;
  } finally {
    await rm(folder, { recursive: true });
  }
};

const get = (path: string, first: ReturnType<typeof firstStart>) =>
  createSchedulerApp({
    // Neither of the two paths asks the scheduler for anything.
    api: {} as SchedulerApi,
    config: { apiToken: "a-token" },
    log: createLog({ level: "silent", service: "scheduler", secrets: [] }),
    clock: systemClock,
    stopping: new AbortController().signal,
    firstStart: first,
  }).request(path);

test("a scheduler without a repository says in its log and on GET / what to write where", async () => {
  const { config } = await load({});
  const first = firstStart(config);
  expect(first?.line).toContain(config.configPath);
  const answer = await get("/", first);
  expect(answer.status).toBe(200);
  expect(answer.headers.get("content-type")).toMatch(/^text\/html/);
  const page = await answer.text();
  expect(page).toContain(config.configPath);
  expect(page).toContain("base_branch: main");
  expect((await get("/tasks", first)).status).toBe(401);
});

test("the sample that it shows is a configuration that it accepts, without a warning", async () => {
  const { config, warnings } = await load({ ORCH_CONFIG: sample });
  expect(warnings).toEqual([]);
  expect(Object.keys(config.repos)).toEqual(["shop"]);
  expect(firstStart(config)).toBe(null);
  expect((await get("/", null)).status).toBe(401);
});
