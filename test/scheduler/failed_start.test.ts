import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { isThere } from "@orchestrator/shared/is_there.ts";
import type { Points } from "@orchestrator/shared/points.ts";
import { findMarked } from "@orchestrator/shared/process/end_processes.ts";
import { expect, test } from "vitest";
import { BreakingPoints, onlyStages } from "../helpers/on_the_way.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../helpers/scheduler.ts";

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";

const ONCE_OPEN = ["start.leftovers_ended", "start.requeued", "start.reaper", "start.dispatcher"];

test.each([
  ...["start.locked", ...ONCE_OPEN].map((point) => ["kernel", point] as const),
  ...ONCE_OPEN.map((point) => ["lease", point] as const),
])(
  "guarded by the %s a start that fails at %s leaves nothing behind: the next one follows at once",
  async (guardedBy, point) => {
    const site = await makeSite();
    // Whoever has to wait for the end of a lease waits for longer than this test.
    const options = { guardedBy, config: { leaseTtlMs: 3_600_000 } };
    const points = new BreakingPoints([point]);
    await expect(startTestScheduler(site, { ...options, points })).rejects.toThrow(`broken off at ${point}`);
    const { context } = await startTestScheduler(site, options);
    expect(context.storage.epoch).toBe(point === "start.locked" ? 1 : 2);
  },
);

test("an agent that was started by a start that fails is ended with it, and its item goes on later", async () => {
  const site = await makeSite();
  const config = onlyStages(site, "analysis");
  const first = await startTestScheduler(site, {
    config: { ...config, limits: { total: 0, perRepo: {}, perAgent: {} } },
  });
  await postTask(first, { workItemId: "ORCH-1" });
  const { instanceId } = first.context;
  await first.stop();
  const begun = join(site.folder, "begun");
  await site.hook("analysis", `[ -e ${begun} ] && exit 0\necho $PPID >${begun}; exec sleep 600\n`);
  const points: Points = {
    reach: async (name) => {
      if (name !== "start.dispatcher") return;
      await expect.poll(() => isThere(begun), { timeout: 20_000 }).toBe(true);
      throw new Error("the start failed");
    },
  };
  await expect(startTestScheduler(site, { config, points })).rejects.toThrow("the start failed");
  expect(await readFile(begun, "utf8")).toMatch(/^\d+\n$/);
  expect(findMarked({ instanceId, runId: 1 })).toEqual([]);
  const { task, runs } = await taskWhen(await startTestScheduler(site, { config }), "ORCH-1", isOver);
  expect(task.status).toBe("done");
  expect(runs).toMatchObject([{ outcome: "interrupted", outcomeClass: "shutdown" }, { outcome: "succeeded" }]);
});
