import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { open, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { createClient } from "@libsql/client";
import { projectRoot, runtimeArgv } from "../helpers/runtime.ts";
import { benchEnvironment, databasePath, openBenchSite } from "./bench_site.ts";
import { print, round } from "./measure.ts";

const CLIENTS = 100;
const ROUNDS = 3;
const WARM_UP_MS = 2000;
const MEASURE_MS = 4000;
const START_MS = 60_000;

/**
 * Prints how many tasks a second a scheduler takes from 100 clients, each answered after the commit, beside the inserts of
 * one row each that the same disk takes one after the other. The better of several rounds counts on either side.
 */
export const timePosting = async (folder: string): Promise<void> => {
  const bareFolder = join(folder, "bare");
  await (await openBenchSite(bareFolder)).storage.close();
  const barePath = await databasePath(bareFolder);
  const scheduler = await startScheduler(join(folder, "posted"));
  try {
    let bare = 0;
    let posted = 0;
    for (let n = 0; n < ROUNDS; n++) {
      bare = Math.max(bare, await insertOneByOne(barePath, n));
      posted = Math.max(posted, await post(scheduler.port, n));
    }
    print({
      figure: "POST /tasks, 100 clients at once",
      unit: "tasks/s",
      bare_single_inserts: round(bare, 0),
      posted: round(posted, 0),
      ratio: round(posted / bare, 2),
    });
  } finally {
    scheduler.child.kill("SIGTERM");
    await scheduler.exited;
  }
};

/** Single inserts of the same row, with the same durability, with nothing around them. */
const insertOneByOne = async (path: string, n: number): Promise<number> => {
  const client = createClient({ url: `file:${path}`, concurrency: 1 });
  try {
    await client.execute("PRAGMA synchronous = FULL");
    const insert = (i: number) =>
      client.execute({
        sql: `INSERT INTO tasks (work_item_id, title, description, repo, branch, base_branch, stage, status, priority, created_at, updated_at)
          VALUES (?, 'A title', ?, 'shop', ?, 'main', 'analysis', 'active', 0, '2026-01-01', '2026-01-01')`,
        args: [`BARE-${n}-${i}`, "text ".repeat(40), `work/BARE-${n}-${i}`],
      });
    let i = 0;
    for (const until = performance.now() + WARM_UP_MS / 2; performance.now() < until; ) await insert(i++);
    const first = i;
    const began = performance.now();
    while (performance.now() < began + MEASURE_MS / 2) await insert(i++);
    return (i - first) / ((performance.now() - began) / 1000);
  } finally {
    client.close();
  }
};

const post = async (port: number, n: number): Promise<number> => {
  const [command, ...args] = runtimeArgv("test/bench/post_clients.ts");
  const numbers = [port, CLIENTS, WARM_UP_MS, MEASURE_MS].map(String);
  const { stdout } = await promisify(execFile)(command, [...args, ...numbers, `POST-${n}`], { cwd: projectRoot });
  return (JSON.parse(stdout) as { perSecond: number }).perSecond;
};

/** A scheduler as an operator starts it, that claims nothing. */
const startScheduler = async (
  folder: string,
): Promise<{ port: number; child: ChildProcess; exited: Promise<unknown> }> => {
  const [command, ...args] = runtimeArgv("services/scheduler/main.ts");
  const env = await benchEnvironment(folder);
  const log = join(folder, "scheduler.log");
  const file = await open(log, "w");
  const child = spawn(command, args, { cwd: projectRoot, env, stdio: ["ignore", file.fd, file.fd] });
  await file.close();
  const exited = once(child, "close");
  for (const until = performance.now() + START_MS; performance.now() < until; await sleep(50)) {
    const text = await readFile(log, "utf8");
    const port = /"port":(\d+).*"msg":"ready"/.exec(text)?.[1];
    if (child.exitCode !== null) throw new Error(`the scheduler ended: ${text}`);
    if (port === undefined) continue;
    const paused = await fetch(`http://127.0.0.1:${port}/queue/pause`, { method: "POST" });
    await paused.body?.cancel();
    if (paused.status !== 200) throw new Error(`POST /queue/pause answered ${paused.status}`);
    return { port: Number(port), child, exited };
  }
  child.kill("SIGKILL");
  throw new Error(`the scheduler was not ready within ${START_MS} ms`);
};
