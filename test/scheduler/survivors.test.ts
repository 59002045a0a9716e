import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { Survivors } from "../../services/scheduler/survivors.ts";
import { makeDue, onlyStages } from "../helpers/on_the_way.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../helpers/scheduler.ts";

/** A process that shows nothing of whose it is, as another user's would. */
const stranger = () => {
  const child = spawn("sleep", ["60"], { cwd: "/", env: { PATH: process.env.PATH } });
  onTestFinished(() => void child.kill("SIGKILL"));
  const end = async (): Promise<void> => {
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
  };
  return { pid: child.pid!, end };
};

test("survivors are known by their workspace, until they are gone", async () => {
  const survivors = new Survivors();
  const [one, two] = [stranger(), stranger()];
  survivors.note("/a", [one.pid]);
  survivors.note("/a", [two.pid]);
  expect(survivors.in("/a")).toEqual([one.pid, two.pid]);
  expect(survivors.in("/b")).toEqual([]);
  await one.end();
  expect(survivors.in("/a")).toEqual([two.pid]);
  await two.end();
  expect(survivors.in("/a")).toEqual([]);
});

test("no agent is started in a workspace beside what could not be ended there; it goes on once that is gone", async () => {
  const site = await makeSite();
  await site.hook(
    "analysis",
    `[ -e ${join(site.folder, "again")} ] || { touch ${join(site.folder, "again")}; exit 1; }\n`,
  );
  const scheduler = await startTestScheduler(site, { config: onlyStages(site, "analysis") });
  const left = stranger();
  scheduler.context.activeRuns.survivors.note(join(site.config.workspacesDir, "ORCH-1"), [left.pid]);
  await postTask(scheduler, { workItemId: "ORCH-1" });
  const busy = ({ runs }: { runs: { outcomeClass: string | null }[] }) =>
    runs.at(-1)?.outcomeClass === "workspace_busy";
  const { runs } = await taskWhen(scheduler, "ORCH-1", busy);
  expect(runs.at(-1)).toMatchObject({
    outcome: "tool_error",
    pid: null,
    reason: expect.stringContaining(`${left.pid}`),
  });

  await left.end();
  const hasFailed = ({ runs }: { runs: { outcome: string | null }[] }) => runs.at(-1)?.outcome === "failed";
  await makeDue(scheduler);
  await taskWhen(scheduler, "ORCH-1", hasFailed);
  await makeDue(scheduler);
  const { task } = await taskWhen(scheduler, "ORCH-1", ({ task }) => task.status !== "active");
  expect(task.status).toBe("done");
});
