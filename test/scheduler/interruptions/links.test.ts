import { spawn } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { isAlive, readProcess } from "@orchestrator/shared/process/proc_table.ts";
import { expect, onTestFinished, test } from "vitest";
import { makeDue, onlyStages } from "../../helpers/on_the_way.ts";
import { makeSite, postTask, type Site, startTestScheduler, taskWhen } from "../../helpers/scheduler.ts";

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";

/** The first attempt leaves a link to `target` in its workspace's place; the second is an honest one. */
const workWithLink = async (site: Site, target: string) => {
  await site.hook(
    "analysis",
    `[ -e "$AGENT_HOOKS/tried" ] && exit 0
touch "$AGENT_HOOKS/tried"
d=$PWD; cd ..; rm -rf "$d"; ln -s ${target} "$d"; exit 1
`,
  );
  const scheduler = await startTestScheduler(site, { config: onlyStages(site, "analysis") });
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await taskWhen(scheduler, "ORCH-1", ({ runs }) => (runs[0]?.outcome ?? null) !== null);
  await makeDue(scheduler);
  return taskWhen(scheduler, "ORCH-1", isOver);
};

test("a link to the root directory in a workspace's place keeps no item from going on", async () => {
  const { task, runs } = await workWithLink(await makeSite(), "/");
  expect(runs.map((run) => [run.outcome, run.outcomeClass])).toEqual([
    ["failed", null],
    ["succeeded", null],
  ]);
  expect(task.status).toBe("done");
});

test("a link in a workspace's place gives nobody away who works where it points to", async () => {
  const site = await makeSite({ killGraceMs: 200 });
  const elsewhere = join(site.folder, "elsewhere");
  await mkdir(elsewhere);
  const child = spawn("sleep", ["600"], { cwd: elsewhere, stdio: "ignore" });
  onTestFinished(() => void child.kill("SIGKILL"));
  const { started } = readProcess(child.pid!)!;
  const { task } = await workWithLink(site, elsewhere);
  expect(task.status).toBe("done");
  expect(isAlive(child.pid!, started)).toBe(true);
});
