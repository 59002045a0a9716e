import type { ChildProcess } from "node:child_process";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { findMarked } from "@orchestrator/shared/process/end_processes.ts";
import { claimJob } from "@orchestrator/shared/storage/claim_job.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";
import { expect, test } from "vitest";
import { insertTaskWithJob } from "../helpers/insert.ts";
import { projectRoot, runtimeArgv } from "../helpers/runtime.ts";
import { openTestStorage } from "../helpers/storage.ts";
import { tempFolder } from "../helpers/temp_folder.ts";
import { eventsOf, fingerprint, makeMirror, readRun, startProgram, until } from "./harness.ts";

const TOKEN = "the-stager's-token-0123456789";

interface StagerProcess {
  child: ChildProcess;
  url: string;
  /** Lines of its log so far. */
  lines: string[];
  post(request: object): Promise<Response>;
  readyz(): Promise<{ ready: boolean; reasons: string[] }>;
  /** Sends SIGTERM and waits for the end. @returns the exit code, or the signal. */
  stop(): Promise<number | string | null>;
}

const startStager = async (folder: string): Promise<StagerProcess> => {
  const { PATH = "", HOME = "/" } = process.env;
  const child = startProgram(runtimeArgv("services/stager/main.ts"), {
    cwd: projectRoot,
    env: {
      ...{ PATH, HOME, ORCH_DATA_DIR: folder, ORCH_REPOS_DIR: join(folder, "repos"), ORCH_STAGER_PORT: "0" },
      ...{ ORCH_SCRATCH_DIR: join(folder, "scratch"), ORCH_STAGER_TOKEN: TOKEN, ORCH_KILL_GRACE_MS: "500" },
    },
  });
  const lines: string[] = [];
  const port = await new Promise<number>((resolve, reject) => {
    createInterface({ input: child.stdout! }).on("line", (line) => {
      lines.push(line);
      const { msg, port } = JSON.parse(line) as { msg: string; port: number };
      if (msg === "ready") resolve(port);
    });
    child.once("exit", (code) => reject(new Error(`the stager ended with ${code}: ${lines.join("\n")}`)));
  });
  const url = `http://127.0.0.1:${port}`;
  return {
    ...{ child, url, lines },
    post: (request) =>
      fetch(`${url}/runs`, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: `Bearer ${TOKEN}` },
        body: JSON.stringify(request),
      }),
    readyz: async () => (await (await fetch(`${url}/readyz`)).json()) as { ready: boolean; reasons: string[] },
    stop: async () => {
      const exited = new Promise<number | string | null>((resolve) =>
        child.once("exit", (code, signal) => resolve(code ?? signal)),
      );
      // Not child.kill(): after it Deno reports every end as one by that signal.
      process.kill(child.pid!, "SIGTERM");
      return exited;
    },
  };
};

/** Puts a staging job of that commit into the database and claims it. @returns what the stager is asked with. */
const claimStaging = async (storage: Storage, workItemId: string, branch: string, head: string) => {
  await insertTaskWithJob(storage, { workItemId, branch, stage: "deploy-staging" }, { agent: "deployer" });
  const claim = await storage.write((tx) =>
    claimJob(tx, {
      limits: { total: 10, perRepo: {}, perAgent: {} },
      environments: { shop: workItemId },
      probes: () => new Set(),
      modelOf: () => null,
      logPathOf: (runId) => `/nowhere/${runId}.log`,
    }),
  );
  if (claim === null) throw new Error("nothing to claim");
  await storage.write((tx) => tx.run("UPDATE tasks SET head = ? WHERE id = ?", [head, claim.task.id]));
  return { job_id: claim.job.id, run_id: claim.run.id, task_id: claim.task.id };
};

test("a stager on a real database: from not ready, over a run, to an orderly stop", async () => {
  const folder = await tempFolder();
  const plan = `version: 1
steps:
  - { name: look, run: 'test "$(git rev-parse HEAD)" = "$ORCH_COMMIT" && echo "on $ORCH_BRANCH"' }
  - { name: wait, run: "[ ! -e $ORCH_CACHE_DIR/hang ] || { sleep 60 & sleep 60; }" }
teardown:
  - { name: down, run: "touch $ORCH_CACHE_DIR/torn-down" }
`;
  const mirror = await makeMirror(folder, { ".orchestrator/staging.yaml": plan });
  await writeFile(join(folder, "orchestrator.yaml"), `repos:\n  shop: { url: ${mirror.gitDir} }\n`);

  const stager = await startStager(folder);
  expect(await stager.readyz()).toEqual({
    ready: false,
    reasons: [expect.stringContaining("there is no database at")],
  });
  expect((await stager.post({ job_id: 1, run_id: 1, task_id: 1 })).status).toBe(503);

  const { storage, instanceId } = await openTestStorage({ path: join(folder, "orchestrator.db") });
  await until(async () => (await stager.readyz()).ready);
  expect((await stager.post({ job_id: 1, run_id: 1, task_id: 1 })).status).toBe(409);
  expect((await fetch(`${stager.url}/runs`, { method: "POST" })).status).toBe(401);

  const request = await claimStaging(storage, "ORCH-115", "work/ORCH-115", mirror.commit);
  const mirrorBefore = await fingerprint(mirror.gitDir);
  const run = await readRun(await stager.post(request));
  expect(run.output).toBe("on work/ORCH-115\n");
  expect(run.result).toMatchObject({ verdict: "success", action: "advance", commit: mirror.commit });
  expect(run.result.artifact?.path).toBe("docs/work-items/ORCH-115/15-staging-log.md");
  expect(await fingerprint(mirror.gitDir)).toEqual(mirrorBefore);
  await storage.write((tx) => tx.run("UPDATE jobs SET status = 'done' WHERE id = ?", [request.job_id]));
  expect((await stager.post(request)).status).toBe(409);

  await writeFile(join(folder, "scratch", "cache", "shop", "hang"), "");
  const hanging = await claimStaging(storage, "ORCH-116", "work/ORCH-116", mirror.commit);
  const response = await stager.post(hanging);
  const events = eventsOf(response.body!);
  for await (const event of events) if (event.event === "step" && event.name === "wait") break;
  await response.body!.cancel().catch(() => undefined);
  const marks = { instanceId, runId: hanging.run_id };
  await until(() => findMarked(marks).length === 0);
  await until(async () => (await readdir(join(folder, "scratch", "cache", "shop"))).includes("torn-down"));
  await until(async () => ((await (await fetch(`${stager.url}/queue`)).json()) as { active: [] }).active.length === 0);

  expect(await stager.stop()).toBe(0);
  expect(await readdir(join(folder, "scratch"))).toEqual(["cache"]);
  expect(stager.lines.join("\n")).not.toContain(TOKEN);
  expect(await storage.query("SELECT COUNT(*) AS n FROM jobs WHERE status = 'running'")).toEqual([{ n: 1 }]);
});

test("a stager that is told to stop in the middle of a run tears down and sends the result", async () => {
  const folder = await tempFolder();
  const plan = `version: 1
steps:
  - { name: wait, run: "trap '' TERM; while :; do sleep 0.05; done" }
teardown:
  - { name: down, run: "touch $ORCH_CACHE_DIR/torn-down" }
`;
  const mirror = await makeMirror(folder, { ".orchestrator/staging.yaml": plan });
  await writeFile(join(folder, "orchestrator.yaml"), `repos:\n  shop: { url: ${mirror.gitDir} }\n`);
  const { storage, instanceId } = await openTestStorage({ path: join(folder, "orchestrator.db") });
  const stager = await startStager(folder);
  const response = await stager.post(await claimStaging(storage, "ORCH-115", "work/ORCH-115", mirror.commit));
  let stopped: Promise<number | string | null> | null = null;
  const told: string[] = [];
  for await (const event of eventsOf(response.body!)) {
    if (event.event === "step") told.push(`${event.name} ${event.state}`);
    if (event.event === "step" && stopped === null) stopped = stager.stop();
    if (event.event === "result") told.push(`${event.verdict} ${event.class}`);
  }
  expect(told).toEqual(["wait started", "down started", "down passed", "tool_error stager_stopped"]);
  expect(await stopped).toBe(0);
  expect(findMarked({ instanceId })).toEqual([]);
  expect(await readdir(join(folder, "scratch", "cache", "shop"))).toEqual(["torn-down"]);
});
