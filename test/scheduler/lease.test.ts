import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { isAlive, readProcess } from "@orchestrator/shared/process/proc_table.ts";
import { openReadOnly } from "@orchestrator/shared/storage/open.ts";
import { expect, onTestFinished, test } from "vitest";
import { git } from "../helpers/git.ts";
import { makeHangingPush } from "../helpers/hanging_push.ts";
import { insertTaskWithJob } from "../helpers/insert.ts";
import { projectRoot, runtimeArgv } from "../helpers/runtime.ts";
import { makeSite, postTask, type Site, startTestScheduler } from "../helpers/scheduler.ts";
import { openTestStorage } from "../helpers/storage.ts";
import { takeOver } from "../helpers/take_over.ts";

const TTL_MS = 600;

interface Leased {
  pid: number;
  /** Resolves with the first line that begins so; rejects when it ends without having said it. */
  says(beginning: string): Promise<string>;
  exited: Promise<{ code: number | null; signal: string | null }>;
}

let n = 0;
const startLeased = async (site: Site, over: object = {}): Promise<Leased> => {
  const path = join(site.folder, `leased-${++n}.json`);
  await writeFile(path, JSON.stringify({ ...site.config, leaseTtlMs: TTL_MS, ...over }));
  const [command, ...args] = runtimeArgv("test/helpers/leased_scheduler.ts");
  const child = spawn(command, [...args, path], { cwd: projectRoot, stdio: ["ignore", "pipe", "inherit"] });
  const lines: string[] = [];
  const listeners = new Set<() => void>();
  createInterface({ input: child.stdout! }).on("line", (line) => {
    lines.push(line);
    for (const listener of listeners) listener();
  });
  const exited = once(child, "close").then(
    ([code, signal]) => ({ code, signal }) as { code: number | null; signal: string | null },
  );
  onTestFinished(async () => {
    if (child.exitCode === null && child.signalCode === null) process.kill(child.pid!, "SIGKILL");
    await exited;
  });
  const says = (beginning: string) =>
    new Promise<string>((resolve, reject) => {
      const look = () => {
        const line = lines.find((said) => said.startsWith(beginning));
        if (line !== undefined) resolve(line);
      };
      listeners.add(look);
      look();
      void exited.then(() => reject(new Error(`ended without '${beginning}', having said ${JSON.stringify(lines)}`)));
    });
  return { pid: child.pid!, says, exited };
};

const stateOf = async (site: Site) => {
  const reader = await openReadOnly(site.config.dbUrl, null);
  const [row] = await reader.query<{ epoch: number; pid: number }>(
    "SELECT epoch, holder ->> 'pid' AS pid FROM scheduler_lease",
  );
  await reader.close();
  return row;
};

test("a second scheduler is refused while the first renews its lease, and named the holder", async () => {
  const site = await makeSite();
  const first = await startLeased(site);
  await first.says("scheduler 1");
  const second = await startLeased(site);
  expect(await second.says("refused")).toContain(`pid ${first.pid}`);
  expect((await second.exited).code).toBe(75);
  expect(await stateOf(site)).toEqual({ epoch: 1, pid: first.pid });
});

test("one that is stopped gives the lease back: the next has it at once, not after its time to live", async () => {
  const site = await makeSite();
  const first = await startLeased(site, { leaseTtlMs: 3_600_000 });
  await first.says("scheduler 1");
  process.kill(first.pid, "SIGTERM");
  expect(await first.exited).toEqual({ code: 0, signal: null });
  const second = await startLeased(site, { leaseTtlMs: 3_600_000 });
  await second.says("scheduler 2");
});

test("a standby takes over from one that was killed, when the lease has not changed for its time to live", async () => {
  const site = await makeSite();
  const first = await startLeased(site);
  await first.says("scheduler 1");
  const standby = await startLeased(site, { standby: true });
  process.kill(first.pid, "SIGKILL");
  await standby.says("scheduler 2");
  expect(await stateOf(site)).toEqual({ epoch: 2, pid: standby.pid });
});

const withTask = async (site: Site): Promise<void> => {
  await mkdir(site.config.dataDir, { recursive: true });
  const { storage } = await openTestStorage({ path: site.config.dbUrl.slice("file:".length) });
  await insertTaskWithJob(storage, { workItemId: "ORCH-1" });
  await storage.close();
};

test("one that was frozen while another took over writes nothing more, ends its agents and exits 75", async () => {
  const site = await makeSite();
  const pidFile = join(site.folder, "agent-pid");
  await site.hook(
    "analysis",
    `echo $PPID >${pidFile}.part && mv ${pidFile}.part ${pidFile}; while :; do sleep 1; done\n`,
  );
  await withTask(site);
  const first = await startLeased(site);
  await first.says("scheduler 2");
  await expect.poll(() => readFile(pidFile, "utf8").catch(() => ""), { timeout: 20_000 }).not.toBe("");
  const agent = Number(await readFile(pidFile, "utf8"));

  process.kill(first.pid, "SIGSTOP");
  const standby = await startLeased(site, {
    standby: true,
    limits: { total: 0, perRepo: {}, perAgent: {} },
  });
  await standby.says("scheduler 3");
  const events = async () => {
    const reader = await openReadOnly(site.config.dbUrl, null);
    const rows = await reader.query("SELECT id, kind FROM task_events ORDER BY id");
    await reader.close();
    return rows;
  };
  const before = await events();
  process.kill(first.pid, "SIGCONT");
  expect(await first.says("fenced off")).toContain("epoch 2, the database is at epoch 3");
  expect((await first.exited).code).toBe(75);
  expect(await events()).toEqual(before);
  expect(readProcess(agent)).toBe(null);
  expect(await stateOf(site)).toEqual({ epoch: 3, pid: standby.pid });
});

test("one that finds out while it pushes ends the push, which lands no more, and exits 75", async () => {
  const site = await makeSite();
  const push = await makeHangingPush(site);
  await withTask(site);
  const first = await startLeased(site, { parentEnv: { ...site.config.parentEnv, PATH: push.path } });
  const pid = await push.waits();
  const { started } = readProcess(pid)!;
  await takeOver(site);
  expect(await first.says("fenced off")).toContain("epoch 2, the database is at epoch 3");
  expect((await first.exited).code).toBe(75);
  expect(isAlive(pid, started)).toBe(false);
  expect(await git(site.remote, "for-each-ref", "--format=%(refname)")).toBe("refs/heads/main");
});

test("one that merely slept past its lease renews it and goes on", async () => {
  const site = await makeSite();
  const first = await startLeased(site);
  await first.says("scheduler 1");
  process.kill(first.pid, "SIGSTOP");
  const expiry = async () => {
    const reader = await openReadOnly(site.config.dbUrl, null);
    const [row] = await reader.query<{ expiresAt: string }>("SELECT expires_at FROM scheduler_lease");
    await reader.close();
    return row!.expiresAt;
  };
  const lapsed = await expiry();
  await new Promise((resolve) => setTimeout(resolve, TTL_MS * 2));
  process.kill(first.pid, "SIGCONT");
  await expect.poll(expiry).not.toBe(lapsed);
  expect(await stateOf(site)).toEqual({ epoch: 1, pid: first.pid });
});

test("two schedulers in one process cannot both hold a file database either", async () => {
  const site = await makeSite();
  const first = await startTestScheduler(site);
  await postTask(first, { workItemId: "ORCH-1", stage: "deploy" });
  await expect(startTestScheduler(site)).rejects.toThrow("another scheduler works on this database");
});
