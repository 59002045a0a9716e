import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { git } from "../../helpers/git.ts";
import { BreakingPoints, makeDue, onlyStages, reap } from "../../helpers/on_the_way.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../../helpers/scheduler.ts";

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";

test.each([
  ["merge", true],
  ["merge", false],
  ["squash", true],
  ["squash", false],
] as const)(
  "%s: what reached the base branch before an interruption is not brought there again, whatever others made of it meanwhile (push: %s)",
  async (merge, push) => {
    const site = await makeSite({ reaperGraceMs: 0 });
    const repos = { shop: { ...site.config.repos.shop!, merge, push } };
    const agents = join(site.folder, "agents");
    await site.hook("any", `echo "$ORCH_STAGE" >>${agents}\n`);
    const points = new BreakingPoints(["merge.after"]);
    const config = { repos, ...onlyStages(site, "development", "deploy") };
    const scheduler = await startTestScheduler(site, { points, config });
    await postTask(scheduler, { workItemId: "ORCH-1", stage: "development" });
    await expect.poll(() => points.broken.length, { timeout: 20_000 }).toBe(1);
    await reap(scheduler);

    const mirror = join(site.config.reposDir, "shop.git");
    const store = push ? site.remote : mirror;
    const merged = await git(store, "rev-parse", "main");
    if (push) {
      // Somebody goes on from there, on the very lines.
      const seed = join(site.folder, "seed");
      await git(seed, "pull", "-q", site.remote, "main");
      await writeFile(join(seed, "code.txt"), "rewritten\n");
      await git(seed, "commit", "-q", "-a", "-m", "rewrite");
      await git(seed, "push", "-q", site.remote, "HEAD:main");
    }
    await makeDue(scheduler);
    const { task, events } = await taskWhen(scheduler, "ORCH-1", isOver);
    expect(task).toMatchObject({ status: "done", returns: 0 });
    expect(events.filter(({ kind }) => kind === "returned")).toEqual([]);
    expect(events.filter(({ kind }) => kind === "merged")).toHaveLength(1);
    expect(await git(store, "rev-parse", push ? "main^" : "main")).toBe(merged);
    expect((await readFile(agents, "utf8")).trim().split("\n")).toEqual(["development", "deploy"]);
  },
);
