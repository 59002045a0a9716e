import { access } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { git } from "../helpers/git.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../helpers/scheduler.ts";
import { writeArtifact } from "../helpers/write_artifact.ts";

const STAGES = ["analysis", "architecture", "development", "review", "testing", "deploy-staging", "deploy"];

test("a work item goes through every stage to done, each stage one run, one advance, one commit of the orchestrator's", async () => {
  const site = await makeSite();
  const scheduler = await startTestScheduler(site);
  await postTask(scheduler, { workItemId: "ORCH-1" });
  const { task, jobs, runs, events } = await taskWhen(scheduler, "ORCH-1", ({ task }) => task.status !== "active");

  expect(task).toMatchObject({ status: "done", stage: "done", returns: 0, leaseRunId: null, blockedReason: null });
  expect(jobs.map((job) => [job.stage, job.status, job.attempt])).toEqual(STAGES.map((stage) => [stage, "done", 1]));
  expect(runs.map((run) => [run.stage, run.outcome, run.exitCode])).toEqual(
    STAGES.map((stage) => [stage, "succeeded", 0]),
  );
  const advanced = events
    .filter((event) => event.kind === "advanced")
    .map((event) => [event.detail.from, event.detail.to]);
  expect(advanced).toEqual(STAGES.map((stage, n) => [stage, STAGES[n + 1] ?? "done"]));
  expect(events.at(-1)?.kind).toBe("done");

  const head = await git(site.remote, "rev-parse", "refs/heads/work/ORCH-1");
  expect(head).toBe(task.head);
  const trailers = await git(
    site.remote,
    "log",
    "--reverse",
    "--format=%(trailers:key=Orchestrator-Run,valueonly,separator=)",
    `main..${head}`,
  );
  expect(trailers.split("\n")).toEqual(runs.map((run) => String(run.id)));
  const files = (await git(site.remote, "ls-tree", "-r", "--name-only", head)).split("\n");
  expect(files.filter((file) => file.startsWith("docs/work-items/ORCH-1/"))).toHaveLength(7);
  expect(scheduler.context.storage.tally.jobs()).toEqual({ queued: 0, running: 0, done: 7, failed: 0, cancelled: 0 });
  await scheduler.context.activeRuns.whenIdle();
  expect(scheduler.context.liveness.snapshot()).toEqual({});
  await expect(access(join(site.config.workspacesDir, "ORCH-1"))).rejects.toThrow("ENOENT");
});

test("a review that asks for changes sends the item back once, with the reason in the next developer's job", async () => {
  const site = await makeSite();
  await site.hook(
    "review",
    `[ -e "$AGENT_HOOKS/seen" ] && exit 0
touch "$AGENT_HOOKS/seen"
${writeArtifact("review_status: CHANGES_REQUESTED")}
exit 99
`,
  );
  const scheduler = await startTestScheduler(site);
  await postTask(scheduler, { workItemId: "ORCH-2" });
  const { task, jobs, events } = await taskWhen(scheduler, "ORCH-2", ({ task }) => task.status !== "active");
  expect(task).toMatchObject({ status: "done", returns: 1 });
  const development = jobs.filter((job) => job.stage === "development");
  expect(development).toHaveLength(2);
  expect(development[1]?.taskContent).toContain("review_status");
  expect(development[1]?.taskContent).toContain("docs/work-items/ORCH-2/12-review.md");
  expect(events.find((event) => event.kind === "returned")?.detail).toMatchObject({
    from: "review",
    to: "development",
  });
});

test("an agent that fails is tried again from the head, its work kept and named to the next attempt; the last failure blocks the task", async () => {
  const site = await makeSite();
  await site.hook("analysis", 'echo "half done by $ORCH_RUN_ID" >half.txt; exit 7\n');
  const pipeline = {
    ...site.config.pipeline,
    stages: site.config.pipeline.stages.map((stage) => ({ ...stage, maxAttempts: 1 })),
  };
  const scheduler = await startTestScheduler(site, { config: { pipeline } });
  await postTask(scheduler, { workItemId: "ORCH-3" });
  const { task, runs, jobs } = await taskWhen(scheduler, "ORCH-3", ({ task }) => task.status === "blocked");
  expect(runs.map((run) => [run.outcome, run.exitCode])).toEqual([["failed", 7]]);
  expect(jobs.map((job) => job.status)).toEqual(["failed"]);
  expect(task.blockedReason).toContain("attempt 1 of 1");
  const mirror = join(site.config.reposDir, "shop.git");
  expect(await git(mirror, "show", `refs/orchestrator/wip/${runs[0]?.id}:half.txt`)).toBe(
    `half done by ${runs[0]?.id}`,
  );
  await expect(git(site.remote, "rev-parse", "--verify", "refs/heads/work/ORCH-3")).rejects.toThrow();
  await access(join(site.config.workspacesDir, "ORCH-3"));
});
