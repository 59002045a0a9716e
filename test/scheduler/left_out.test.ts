import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { git } from "../helpers/git.ts";
import { BreakingPoints, makeDue, onlyStages } from "../helpers/on_the_way.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../helpers/scheduler.ts";
import { keepLog } from "./faults/kept_log.ts";

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";

const NESTED = "git init -q sub; echo inside >sub/file.txt\n";
const LEFT_OUT = "sub was left out: it is a repository of its own";

test("what is not part of a run's work although it succeeded is said in its log and the service's, with where it is kept", async () => {
  const site = await makeSite();
  await site.hook("development", NESTED);
  const { log, said } = keepLog();
  const scheduler = await startTestScheduler(site, { log, config: onlyStages(site, "development") });
  await postTask(scheduler, { workItemId: "ORCH-1", stage: "development" });
  const { task, runs } = await taskWhen(scheduler, "ORCH-1", isOver);
  await scheduler.context.activeRuns.whenIdle();
  expect(task.status).toBe("done");
  const ref = `refs/orchestrator/wip/${runs[0]?.id}`;
  expect(said("not all that a run left")).toMatchObject([
    { level: "warn", run_id: runs[0]?.id, ref, notes: [LEFT_OUT] },
  ]);
  const runLog = await readFile(runs[0]!.logPath!, "utf8");
  expect(runLog).toContain(`[orchestrator] ${LEFT_OUT}\n`);
  expect(runLog).toContain(ref);
  expect(await git(join(site.config.reposDir, "shop.git"), "show", `${ref}:sub/file.txt`)).toBe("inside");
});

test("it is said by the run that takes up the work of one that was cut short, too", async () => {
  const site = await makeSite();
  await site.hook("development", NESTED);
  const { log, said } = keepLog();
  const points = new BreakingPoints(["collect.before"]);
  const scheduler = await startTestScheduler(site, { log, points, config: onlyStages(site, "development") });
  await postTask(scheduler, { workItemId: "ORCH-1", stage: "development" });
  await taskWhen(scheduler, "ORCH-1", ({ runs }) => (runs[0]?.outcome ?? null) !== null);
  await makeDue(scheduler);
  const { runs } = await taskWhen(scheduler, "ORCH-1", isOver);
  await scheduler.context.activeRuns.whenIdle();
  expect(said("not all that a run left")).toMatchObject([{ run_id: runs[0]?.id }]);
  expect(await readFile(runs[1]!.logPath!, "utf8")).toContain(LEFT_OUT);
});

test("what of a failed run could not be kept as it was is said in its log", async () => {
  const site = await makeSite();
  await site.hook("development", "rm -rf .git; echo half >half.txt; exit 3\n");
  const { log, said } = keepLog();
  const scheduler = await startTestScheduler(site, { log, config: onlyStages(site, "development") });
  await postTask(scheduler, { workItemId: "ORCH-1", stage: "development" });
  const { runs } = await taskWhen(scheduler, "ORCH-1", ({ runs }) => (runs[0]?.outcome ?? null) !== null);
  await scheduler.context.activeRuns.whenIdle();
  const ref = `refs/orchestrator/wip/${runs[0]?.id}`;
  const notes = [".git is gone: only the files were taken"];
  expect(said("kept what a run without success left")).toMatchObject([{ level: "warn", ref, notes }]);
  const runLog = await readFile(runs[0]!.logPath!, "utf8");
  expect(runLog).toContain(`[orchestrator] ${notes[0]}\n`);
  expect(runLog).toContain(ref);
});
