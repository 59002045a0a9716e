import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isAlive, readProcess } from "@orchestrator/shared/process/proc_table.ts";
import { expect, onTestFinished, test } from "vitest";
import { makeDue, onlyStages } from "../../helpers/on_the_way.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../../helpers/scheduler.ts";

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";

/** A process of somebody's; it is killed when the test has finished. */
const startStray = async (script: string, cwd: string, env: Record<string, string> = {}) => {
  const child = spawn("/bin/sh", ["-c", script], {
    ...{ cwd, detached: true, env: { PATH: process.env.PATH ?? "", ...env } },
    stdio: ["ignore", "pipe", "ignore"],
  });
  onTestFinished(() => {
    try {
      process.kill(-child.pid!, "SIGKILL");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  });
  const [line] = (await once(child.stdout!, "data")) as [Buffer];
  const pid = Number(line.toString());
  return { child, pid, started: readProcess(pid)!.started };
};

test("a process without any mark that works in the workspace is gone before the next run uses it", async () => {
  const site = await makeSite();
  const seen = join(site.folder, "seen");
  const stray = join(site.folder, "stray");
  // One that has ended may be left as a zombie where nobody collects the dead.
  await site.hook(
    "analysis",
    `[ -e ${stray} ] || exit 1
case "$(sed 's/.*) //' "/proc/$(cat ${stray})/stat" 2>/dev/null)" in "" | Z*) echo gone ;; *) echo alive ;; esac >${seen}
`,
  );
  const scheduler = await startTestScheduler(site, { config: { killGraceMs: 100, ...onlyStages(site, "analysis") } });
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await taskWhen(scheduler, "ORCH-1", ({ runs }) => runs[0]?.outcome === "failed");
  const { pid } = await startStray(
    "exec env -i setsid /bin/sh -c 'trap \"\" TERM; echo $$; while :; do /bin/sleep 0.05; done'",
    join(site.config.workspacesDir, "ORCH-1"),
  );
  await writeFile(stray, String(pid));
  await makeDue(scheduler);
  expect((await taskWhen(scheduler, "ORCH-1", isOver)).task.status).toBe("done");
  expect((await readFile(seen, "utf8")).trim()).toBe("gone");
});

test("the reaper ends a run whose job was taken from it behind its back; its settle changes nothing", async () => {
  const site = await makeSite();
  await site.hook("analysis", "while :; do sleep 0.02; done\n");
  const scheduler = await startTestScheduler(site);
  const { storage, activeRuns, reaperCounters } = scheduler.context;
  await postTask(scheduler, { workItemId: "ORCH-1" });
  const { runs } = await taskWhen(scheduler, "ORCH-1", ({ runs }) => (runs[0]?.pid ?? null) !== null);
  const agent = { pid: runs[0]!.pid!, started: runs[0]!.pidStarted! };
  await storage.write(async (tx) => {
    await tx.run("UPDATE jobs SET status = 'cancelled'");
    await tx.run("UPDATE tasks SET status = 'cancelled', lease_run_id = NULL");
    tx.jobMoved("running", "cancelled");
  });
  await scheduler.reaper.sweep();
  // A run that was claimed while the sweep looked is missing among what it saw as well: one look is not enough.
  expect(activeRuns.all().map((run) => run.endReason)).toEqual([null]);
  await scheduler.reaper.sweep();
  await activeRuns.whenIdle();
  expect(isAlive(agent.pid, agent.started)).toBe(false);
  expect(reaperCounters).toMatchObject({ settleSuperseded: 1, errors: 0 });
  expect(await storage.query("SELECT status, lease_run_id FROM tasks")).toEqual([
    { status: "cancelled", leaseRunId: null },
  ]);
});

test("a process of a staging step is left to a stager that lives, and ended once that is gone and the grace is over", async () => {
  const site = await makeSite({ reaperGraceMs: 0 });
  const scheduler = await startTestScheduler(site);
  const { instanceId, reaperCounters } = scheduler.context;
  const program = join(site.folder, "stager");
  await writeFile(program, 'ORCH_RUN_ID=999 /bin/sh -c "echo \\$\\$; while :; do sleep 0.05; done" &\nwait\n');
  const step = await startStray(`exec /bin/sh ${program}`, site.folder, { ORCH_INSTANCE_ID: instanceId });
  for (let sweep = 0; sweep < 3; sweep++) await scheduler.reaper.sweep();
  expect(isAlive(step.pid, step.started)).toBe(true);
  expect(reaperCounters.orphansKilled).toBe(0);

  step.child.kill("SIGKILL");
  await once(step.child, "exit");
  await scheduler.reaper.sweep();
  expect(isAlive(step.pid, step.started)).toBe(false);
  expect(reaperCounters.orphansKilled).toBeGreaterThan(0);
});

test("the log of a run is whole when a stop has ended it", async () => {
  const site = await makeSite();
  const program = join(site.folder, "talker.sh");
  const farewell = "x".repeat(1000);
  await writeFile(
    program,
    `trap 'n=0; while [ $n -lt 200 ]; do echo ${farewell}; n=$((n + 1)); done; echo the end; exit 1' TERM
echo begun
while :; do sleep 0.02; done
`,
  );
  const agents = { default: { ...site.config.agents.default!, command: ["/bin/sh", program] as [string, string] } };
  const scheduler = await startTestScheduler(site, { config: { agents } });
  const { runLogs } = scheduler.context;
  await postTask(scheduler, { workItemId: "ORCH-1" });
  const { runs } = await taskWhen(scheduler, "ORCH-1", ({ runs }) => (runs[0]?.pid ?? null) !== null);
  const path = runs[0]!.logPath!;
  await expect.poll(() => readFile(path, "utf8").catch(() => ""), { timeout: 20_000 }).toContain("begun");

  // A disk that takes its time.
  const closing = runLogs.close.bind(runLogs);
  runLogs.close = async (runId) => {
    await new Promise((resolve) => setTimeout(resolve, 100));
    await closing(runId);
  };
  await scheduler.stop();
  expect(runLogs.get(runs[0]!.id)).toBeUndefined();
  const text = await readFile(path, "utf8");
  expect(text.split("\n").filter((line) => line === farewell)).toHaveLength(200);
  expect(text.trimEnd().endsWith("the end")).toBe(true);
});
