import { readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { onlyStages } from "../../helpers/on_the_way.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../../helpers/scheduler.ts";
import { keepLog } from "./kept_log.ts";

test.each(["workspaces", "repos", "tmp", "logs"])(
  "%s deleted beneath a scheduler that has nothing to do: the next item is worked",
  async (name) => {
    const site = await makeSite();
    const { log, said } = keepLog();
    const scheduler = await startTestScheduler(site, { log, config: onlyStages(site, "analysis") });
    const work = async (workItemId: string) => {
      await postTask(scheduler, { workItemId });
      const { task } = await taskWhen(scheduler, workItemId, ({ task }) => task.status !== "active");
      await scheduler.context.activeRuns.whenIdle();
      return task.status;
    };
    expect(await work("ORCH-1")).toBe("done");
    const folder = join(site.config.dataDir, name);
    await rm(folder, { recursive: true });
    expect(await work("ORCH-2")).toBe("done");
    // A run makes the logs' folder itself.
    expect(said("a folder was gone")).toMatchObject(name === "logs" ? [] : [{ level: "warn", folder }]);
  },
);

test("the data directory itself is not made again: nothing is claimed beside a database that is gone, and it can be put back", async () => {
  const site = await makeSite();
  const { log, said } = keepLog();
  const scheduler = await startTestScheduler(site, { log, config: onlyStages(site, "analysis") });
  const { dataDir } = site.config;
  await rename(dataDir, `${dataDir}.away`);
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await expect.poll(() => said("no job could be claimed"), { timeout: 10_000 }).not.toEqual([]);
  expect(await readdir(site.folder)).not.toContain("data");
  await expect
    .poll(() => scheduler.api.readiness(), { timeout: 10_000 })
    .toEqual([expect.stringContaining("the lock file"), expect.stringContaining("Put it back")]);
  await rename(`${dataDir}.away`, dataDir);
  const { task } = await taskWhen(scheduler, "ORCH-1", ({ task }) => task.status !== "active");
  expect(task.status).toBe("done");
  await expect.poll(() => scheduler.api.readiness(), { timeout: 10_000 }).toEqual([]);
});
