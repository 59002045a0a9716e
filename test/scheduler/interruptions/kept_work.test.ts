import { execFile } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { git } from "../../helpers/git.ts";
import { HeldPoints } from "../../helpers/held_points.ts";
import { makeDue, onlyStages } from "../../helpers/on_the_way.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../../helpers/scheduler.ts";

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";

test("what the agent of a cancelled task left is kept, however often the reaper looks meanwhile", async () => {
  const site = await makeSite();
  const began = join(site.folder, "began");
  await site.hook("analysis", `echo half >half.txt; touch ${began}; while :; do sleep 0.02; done\n`);
  const points = new HeldPoints();
  const scheduler = await startTestScheduler(site, { points });
  const exited = points.hold("exit.recorded");
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await expect.poll(() => readFile(began, "utf8").catch(() => null), { timeout: 20_000 }).toBe("");
  await scheduler.api.cancelTask({ workItemId: "ORCH-1" }, {});
  await exited.arrived;
  for (let sweep = 0; sweep < 4; sweep++) await scheduler.reaper.sweep();
  exited.release();
  await scheduler.context.activeRuns.whenIdle();
  const { runs } = await taskWhen(scheduler, "ORCH-1", isOver);
  const mirror = join(site.config.reposDir, "shop.git");
  expect(await git(mirror, "show", `refs/orchestrator/wip/${runs[0]?.id}:half.txt`)).toBe("half");
  expect(runs.map((run) => run.outcome)).toEqual(["cancelled"]);
});

test("a finalizer whose job was taken from it is ended by the reaper once it is hung", async () => {
  const site = await makeSite({ finalizerMaxMs: 0 });
  await site.hook("analysis", "exit 1\n");
  const points = new HeldPoints();
  const scheduler = await startTestScheduler(site, { points });
  const { liveness } = scheduler.context;
  const held = points.hold("exit.recorded");
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await held.arrived;
  const [jobId] = liveness.jobIds();
  await scheduler.api.cancelTask({ workItemId: "ORCH-1" }, {});
  const reasons: string[] = [];
  const abort = liveness.abort.bind(liveness);
  liveness.abort = (id, runId, reason) => {
    reasons.push(`${id}: ${reason.message}`);
    return abort(id, runId, reason);
  };
  await scheduler.reaper.sweep();
  await scheduler.reaper.sweep();
  expect(reasons).toEqual([`${jobId}: its job is no longer this run's`]);
  held.release();
  await scheduler.context.activeRuns.whenIdle();
  expect(liveness.snapshot()).toEqual({});
});

test("an attempt that comes after one whose program could not be started is told where the work before that is kept", async () => {
  const site = await makeSite();
  const began = join(site.folder, "began");
  const prompt = join(site.folder, "prompt");
  await site.hook(
    "analysis",
    `[ -e ${began} ] && exit 0; echo half >half.txt; touch ${began}; while :; do sleep 0.02; done\n`,
  );
  const [shell, agent] = site.config.agents.default!.command as [string, string];
  const first = await startTestScheduler(site, { config: onlyStages(site, "analysis") });
  await postTask(first, { workItemId: "ORCH-1" });
  await expect.poll(() => readFile(began, "utf8").catch(() => null), { timeout: 20_000 }).toBe("");
  await first.stop();

  const running = (command: [string, ...string[]]) => ({
    ...onlyStages(site, "analysis"),
    agents: { default: { ...site.config.agents.default!, command } },
  });
  const second = await startTestScheduler(site, { config: running(["no-such-program"]) });
  const { runs } = await taskWhen(second, "ORCH-1", ({ runs }) => runs[1]?.outcome === "tool_error");
  expect(runs.map((run) => run.outcomeClass)).toEqual(["shutdown", "command_not_found"]);
  await second.stop();

  const wrapper = join(site.folder, "wrapper.sh");
  await writeFile(wrapper, `tee ${prompt} | ${shell} ${agent}\n`);
  const third = await startTestScheduler(site, { config: running([shell, wrapper]) });
  await makeDue(third);
  expect((await taskWhen(third, "ORCH-1", isOver)).task.status).toBe("done");
  expect(await readFile(prompt, "utf8")).toContain(`refs/orchestrator/wip/${runs[0]?.id}`);
});

test.each(["wip", "runs"])(
  "what the agent of a finished run left beside its work is kept although the disk was full when refs/orchestrator/%s was written",
  async (refs) => {
    const site = await makeSite();
    const bin = join(site.folder, "bin");
    const { stdout: gitPath } = await promisify(execFile)("/bin/sh", ["-c", "command -v git"]);
    await mkdir(bin);
    await writeFile(
      join(bin, "git"),
      `#!/bin/sh
case " $* " in *" update-ref "*refs/orchestrator/${refs}/*)
  [ -e ${bin}/full ] || { touch ${bin}/full; echo "fatal: write error: No space left on device" >&2; exit 128; }
esac
exec ${gitPath.trim()} "$@"
`,
      { mode: 0o755 },
    );
    await site.hook(
      "analysis",
      `side=$(git -c user.name=A -c user.email=a@b commit-tree -m precious -p HEAD "HEAD^{tree}")
git branch side "$side"\n`,
    );
    const parentEnv = { ...site.config.parentEnv, PATH: `${bin}:${site.config.parentEnv.PATH}` };
    const scheduler = await startTestScheduler(site, { config: { ...onlyStages(site, "analysis"), parentEnv } });
    await postTask(scheduler, { workItemId: "ORCH-1" });
    await taskWhen(scheduler, "ORCH-1", ({ runs }) => runs[0]?.outcomeClass === "no_space");
    await makeDue(scheduler);
    const { task, runs } = await taskWhen(scheduler, "ORCH-1", isOver);
    expect(task.status).toBe("done");
    expect(runs.map((run) => [run.outcome, run.pid === null])).toEqual([
      ["tool_error", false],
      ["succeeded", true],
    ]);
    const mirror = join(site.config.reposDir, "shop.git");
    expect(await git(mirror, "log", "-1", "--format=%s", `refs/orchestrator/wip/${runs[0]?.id}^2`)).toBe("precious");
  },
);
