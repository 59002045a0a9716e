import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { git } from "../../helpers/git.ts";
import { BreakingPoints, makeDue, onlyStages, reap } from "../../helpers/on_the_way.ts";
import { setPreReceive } from "../../helpers/remote_repository.ts";
import { makeSite, postTask, type Site, startTestScheduler, taskWhen } from "../../helpers/scheduler.ts";
import { writeArtifact } from "../../helpers/write_artifact.ts";

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";

/** Has every agent write its run's id down. */
const countAgents = async (site: Site, script = ""): Promise<() => Promise<number>> => {
  const file = join(site.folder, "agents");
  await writeFile(file, "");
  await site.hook("any", `echo "$ORCH_RUN_ID" >>${file}\n${script}`);
  return async () => (await readFile(file, "utf8")).split("\n").length - 1;
};

const moveMain = async (site: Site): Promise<void> => {
  const seed = join(site.folder, "seed");
  await writeFile(join(seed, "other.txt"), "theirs\n");
  await git(seed, "add", "-A");
  await git(seed, "commit", "-q", "-m", "somebody else's");
  await git(seed, "push", "-q", site.remote, "HEAD:main");
};

test("an agent that ends with 0 upon the signal of a stop has not finished: after the restart it runs again", async () => {
  const site = await makeSite();
  const began = join(site.folder, "began");
  const program = join(site.folder, "polite.sh");
  await writeFile(
    program,
    `cat >/dev/null
${writeArtifact("note: by run $ORCH_RUN_ID")}
[ -e ${began} ] && exit 0
trap 'exit 0' TERM
touch ${began}
while :; do sleep 0.02; done
`,
  );
  const agents = { default: { ...site.config.agents.default!, command: ["/bin/sh", program] as [string, string] } };
  const config = { agents, ...onlyStages(site, "analysis") };
  const first = await startTestScheduler(site, { config });
  await postTask(first, { workItemId: "ORCH-1" });
  await expect.poll(() => readFile(began, "utf8").catch(() => null), { timeout: 20_000 }).toBe("");
  await first.stop();

  const second = await startTestScheduler(site, { config });
  const { task, runs } = await taskWhen(second, "ORCH-1", isOver);
  expect(task.status).toBe("done");
  expect(runs.map((run) => [run.outcome, run.exitCode, run.signal, run.pid === null])).toEqual([
    ["interrupted", 0, "SIGTERM", false],
    ["succeeded", 0, null, false],
  ]);
  const artifact = await git(site.remote, "show", `${task.head}:docs/work-items/ORCH-1/01-requirements.md`);
  expect(artifact).toContain(`by run ${runs[1]?.id}`);
});

test("work that was cut short, taken up again and turned away by the gate is not taken up a third time: the agent runs again", async () => {
  const site = await makeSite({ reaperGraceMs: 0 });
  const agents = await countAgents(site, `[ "$(wc -l <${join(site.folder, "agents")})" -gt 1 ] || exit 99\n`);
  const points = new BreakingPoints(["collect.after"]);
  const scheduler = await startTestScheduler(site, { points, config: onlyStages(site, "analysis") });
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await taskWhen(scheduler, "ORCH-1", ({ runs }) => runs[0]?.exitCode === 0);
  await reap(scheduler);
  await makeDue(scheduler);
  await taskWhen(scheduler, "ORCH-1", ({ runs }) => runs[1]?.outcome === "failed");
  expect(await agents()).toBe(1);
  await makeDue(scheduler);

  const { task, runs } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(task.status).toBe("done");
  expect(runs.map((run) => [run.outcome, run.outcomeClass, run.pid === null])).toEqual([
    ["tool_error", "internal", false],
    ["failed", null, true],
    ["succeeded", null, false],
  ]);
  expect(await agents()).toBe(2);
  // What the gate turned away stays where people and the next attempt find it.
  const mirror = join(site.config.reposDir, "shop.git");
  await git(mirror, "rev-parse", "--verify", `refs/orchestrator/wip/${runs[1]?.id}`);
});

describe("the base branch moves between the exit of a first run and its being taken up again: it is judged against where it began", () => {
  test.each([true, false])("push: %s", async (push) => {
    const site = await makeSite({ reaperGraceMs: 0 });
    const repos = { shop: { ...site.config.repos.shop!, push } };
    const agents = await countAgents(site);
    if (push) await setPreReceive(site.remote, "exit 1");
    const points = new BreakingPoints(push ? [] : ["ref.before"]);
    // A stage that may write its own folder alone: what others did to the base branch must not count as its change.
    const scheduler = await startTestScheduler(site, { points, config: { repos, ...onlyStages(site, "analysis") } });
    const began = await git(site.remote, "rev-parse", "main");
    await postTask(scheduler, { workItemId: "ORCH-1" });
    await taskWhen(scheduler, "ORCH-1", ({ runs }) => runs[0]?.exitCode === 0 && (!push || runs[0].outcome !== null));
    await reap(scheduler);
    if (push) await setPreReceive(site.remote, "exit 0");
    await moveMain(site);
    await makeDue(scheduler);

    const { task, runs } = await taskWhen(scheduler, "ORCH-1", isOver);
    expect(task.blockedReason).toBeNull();
    expect(runs.map((run) => [run.outcome, run.outcomeClass, run.pid === null])).toEqual([
      ["tool_error", push ? "git_push" : "internal", false],
      ["succeeded", null, true],
    ]);
    expect(await agents()).toBe(1);
    const mirror = join(site.config.reposDir, "shop.git");
    expect(await git(mirror, "rev-list", "--count", `${began}..${task.head}`)).toBe("1");
    expect(await git(mirror, "merge-base", "refs/remotes/origin/main", task.head!)).toBe(began);
    expect(await git(mirror, "rev-parse", "refs/heads/work/ORCH-1")).toBe(task.head);
  });
});

test("a remote that refuses ten pushes blocks the task; once it is mended, a person's retry publishes the work without its agent", async () => {
  const site = await makeSite();
  const agents = await countAgents(site);
  await setPreReceive(site.remote, "exit 1");
  const scheduler = await startTestScheduler(site, { config: onlyStages(site, "analysis") });
  const { storage } = scheduler.context;
  await postTask(scheduler, { workItemId: "ORCH-1" });
  for (let n = 1; n <= 10; n++) {
    await taskWhen(
      scheduler,
      "ORCH-1",
      ({ runs }) => runs.filter((run) => run.outcomeClass === "git_push").length === n,
    );
    if (n < 10) await makeDue(scheduler);
  }
  const blocked = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(blocked.task).toMatchObject({ status: "blocked", stage: "analysis" });
  expect(blocked.task.blockedReason).toContain("10 tool errors");
  expect(await storage.query("SELECT DISTINCT attempt FROM agent_runs")).toEqual([{ attempt: 1 }]);

  await rm(join(site.remote, "hooks", "pre-receive"));
  await scheduler.api.retryTask({ workItemId: "ORCH-1" }, { note: "the server takes pushes again" });
  const { task, runs } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(task.status).toBe("done");
  expect(await agents()).toBe(1);
  expect(runs).toHaveLength(11);
  expect(await git(site.remote, "rev-parse", "work/ORCH-1")).toBe(task.head);
});
