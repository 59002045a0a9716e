import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { isAlive, readProcess } from "@orchestrator/shared/process/proc_table.ts";
import { openReadOnly } from "@orchestrator/shared/storage/open.ts";
import { expect, onTestFinished, test } from "vitest";
import { freePorts } from "../demo/ports.ts";
import { writeConfigFile } from "../helpers/config_file.ts";
import { projectRoot, runtimeArgv } from "../helpers/runtime.ts";
import { makeSite } from "../helpers/scheduler.ts";

test("a stop of both services gives running agents their drain, ends and settles them, and exits 0", async () => {
  const site = await makeSite();
  const pidFile = join(site.folder, "agent-pid");
  await site.hook(
    "analysis",
    `echo $$ >${pidFile}.part && mv ${pidFile}.part ${pidFile}; while :; do sleep 0.2; done\n`,
  );
  const [command, ...args] = runtimeArgv("services/start.ts");
  const [port, stagerPort] = await freePorts(2);
  const child = spawn(command, args, {
    cwd: projectRoot,
    env: {
      PATH: process.env.PATH,
      HOME: site.folder,
      ORCH_DATA_DIR: site.config.dataDir,
      ORCH_CONFIG: await writeConfigFile(site),
      ORCH_PORT: String(port),
      ORCH_STAGER_PORT: String(stagerPort),
      ORCH_DRAIN_MS: "300",
      ORCH_KILL_GRACE_MS: "2000",
    },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(child, "close");
  const said: { service: string; msg: string }[] = [];
  const ready = new Promise<void>((resolve) => {
    createInterface({ input: child.stdout }).on("line", (line) => {
      const entry = JSON.parse(line) as { service: string; msg: string };
      said.push(entry);
      if (said.filter(({ msg }) => msg === "ready").length === 2) resolve();
    });
  });
  onTestFinished(async () => {
    if (child.exitCode === null && child.signalCode === null) process.kill(child.pid!, "SIGTERM");
    await ended;
  });
  await ready;
  const answer = await fetch(`http://127.0.0.1:${port}/tasks`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ work_item_id: "ORCH-1", title: "t", repo: "shop" }),
  });
  expect(answer.status).toBe(201);
  await expect.poll(() => readFile(pidFile, "utf8").catch(() => ""), { timeout: 20_000 }).not.toBe("");
  const pid = Number(await readFile(pidFile, "utf8"));
  const { started } = readProcess(pid)!;

  process.kill(child.pid!, "SIGTERM");
  expect(await ended).toEqual([0, null]);
  expect(isAlive(pid, started)).toBe(false);
  expect(
    said
      .filter(({ msg }) => msg === "stopped")
      .map(({ service }) => service)
      .sort(),
  ).toEqual(["scheduler", "stager"]);
  const reader = await openReadOnly(site.config.dbUrl, null);
  expect(await reader.query("SELECT outcome, outcome_class FROM agent_runs")).toEqual([
    { outcome: "interrupted", outcomeClass: "shutdown" },
  ]);
  expect(await reader.query("SELECT status, attempt FROM jobs")).toEqual([{ status: "queued", attempt: 1 }]);
  await reader.close();
});
