import { expect, test } from "vitest";
import { git } from "../helpers/git.ts";
import { startGoodStager } from "../helpers/good_stager.ts";
import { onlyStages } from "../helpers/on_the_way.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../helpers/scheduler.ts";

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";

test("what the orchestrator commits says whose it is, once: of an agent's run, of the stager's, and of a merge", async () => {
  const site = await makeSite({ stagingRunnerEnabled: true });
  const stager = await startGoodStager(site);
  const repos = { shop: { ...site.config.repos.shop!, merge: "merge" as const } };
  const config = { stagerUrl: stager.url, repos, ...onlyStages(site, "development", "deploy-staging") };
  const scheduler = await startTestScheduler(site, { config });
  await postTask(scheduler, { workItemId: "ORCH-1", title: "Add a thing", stage: "development" });
  const { task } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(task.status).toBe("done");
  const message = (commit: string) => git(site.remote, "log", "-1", "--format=%B", commit);
  expect(await message("work/ORCH-1^")).toBe("ORCH-1: development\n\nAttempt 1 by developer.\n\nOrchestrator-Run: 1");
  expect(await message("work/ORCH-1")).toBe("ORCH-1: deploy-staging\n\nStaging run: success.\n\nOrchestrator-Run: 2");
  expect(await message("main")).toBe("ORCH-1: Add a thing\n\nMerge of work/ORCH-1.\n\nOrchestrator-Run: 2");
});
