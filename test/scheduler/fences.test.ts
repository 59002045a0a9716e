import { spawn } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { noPoints } from "@orchestrator/shared/points.ts";
import { Connection } from "@orchestrator/shared/storage/connection.ts";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { commitFile } from "../../services/scheduler/git/commit_file.ts";
import { mergeIntoBase } from "../../services/scheduler/git/merge_into_base.ts";
import type { Scheduler } from "../../services/scheduler/scheduler.ts";
import { git } from "../helpers/git.ts";
import { HeldPoints } from "../helpers/held_points.ts";
import { onlyStages } from "../helpers/on_the_way.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../helpers/scheduler.ts";
import { ARTIFACT, BRANCH, type Fixture, makeFixture, plainGit, write } from "./git/fixture.ts";

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";

/** Another scheduler takes the database over, of which this one has not heard. */
const takeOver = async ({ context }: Scheduler): Promise<void> => {
  const { dbUrl: url } = context.config;
  const other = new Connection({ url, authToken: null, synchronous: "FULL", readOnly: false, busyLimitMs: 10_000 });
  await other.transaction(async (tx) => void (await tx.run("UPDATE scheduler_lease SET epoch = epoch + 1")));
  await other.close();
};

test("a launch whose scheduler has been superseded fetches nothing any more", async () => {
  const site = await makeSite();
  const points = new HeldPoints();
  const lost: Error[] = [];
  const config = onlyStages(site, "analysis");
  const scheduler = await startTestScheduler(site, { points, config, onFencedOff: (error) => void lost.push(error) });
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await taskWhen(scheduler, "ORCH-1", isOver);
  const mirror = join(site.config.reposDir, "shop.git");
  const before = await git(mirror, "rev-parse", "refs/remotes/origin/main");
  const seed = join(site.folder, "seed");
  await writeFile(join(seed, "other.txt"), "theirs\n");
  await git(seed, "add", "-A");
  await git(seed, "commit", "-q", "-m", "somebody else's");
  await git(seed, "push", "-q", site.remote, "HEAD:main");

  const held = points.hold("fetch.before");
  await postTask(scheduler, { workItemId: "ORCH-2" });
  await held.arrived;
  // Nobody else is to find out first, and end the launch.
  await scheduler.stopClaiming();
  await takeOver(scheduler);
  held.release();
  await expect.poll(() => lost.length, { timeout: 20_000 }).toBeGreaterThan(0);
  await scheduler.context.activeRuns.whenIdle();
  expect(await git(mirror, "rev-parse", "refs/remotes/origin/main")).toBe(before);
});

test.each(["fetch.after", "launch.salvaged"])(
  "a launch whose scheduler has been superseded at %s touches the workspace no more: it may be the new one's agent's",
  async (point) => {
    const site = await makeSite();
    const points = new HeldPoints();
    const lost: Error[] = [];
    await site.hook("any", "exit 1\n");
    const stages = site.config.pipeline.stages.map((stage) => ({ ...stage, maxAttempts: 1 }));
    const scheduler = await startTestScheduler(site, {
      points,
      config: { pipeline: { ...site.config.pipeline, stages } },
      onFencedOff: (error) => void lost.push(error),
    });
    await postTask(scheduler, { workItemId: "ORCH-1" });
    await taskWhen(scheduler, "ORCH-1", isOver);
    const workspace = join(site.config.workspacesDir, "ORCH-1");

    const held = points.hold(point);
    await scheduler.api.retryTask({ workItemId: "ORCH-1" }, {});
    await held.arrived;
    await scheduler.stopClaiming();
    await takeOver(scheduler);
    // As the new scheduler's agent would.
    await writeFile(join(workspace, "unsaved.txt"), "work");
    await git(workspace, "commit", "-q", "--allow-empty", "-m", "unsaved");
    const commit = await git(workspace, "rev-parse", "HEAD");
    const worker = spawn("sleep", ["60"], { cwd: workspace });
    onTestFinished(() => void worker.kill("SIGKILL"));
    held.release();
    await expect.poll(() => lost.length, { timeout: 20_000 }).toBeGreaterThan(0);
    await scheduler.context.activeRuns.whenIdle();
    expect(await git(workspace, "rev-parse", "HEAD")).toBe(commit);
    expect(await readFile(join(workspace, "unsaved.txt"), "utf8")).toBe("work");
    expect([worker.exitCode, worker.signalCode]).toEqual([null, null]);
  },
);

describe("a scheduler that is superseded while it works on a repository moves no ref", () => {
  let f: Fixture;
  let path: string;
  beforeEach(async () => {
    f = await makeFixture();
    ({ path } = await f.prepare());
    await write(path, { [ARTIFACT]: "done", "new.txt": "new" });
  });
  afterEach(() => f.remove());

  const refs = () => f.ask("for-each-ref");

  /** A fence that is lost when it is asked for the nth time; `asked` says which refs there were each time. */
  const lostAt = (nth: number) => {
    const asked: string[] = [];
    const fence = async (): Promise<void> => {
      asked.push(await refs());
      if (asked.length === nth) throw new Error("another scheduler has taken over");
    };
    return { fence, asked };
  };

  test("when it has collected finished work", async () => {
    const before = await refs();
    await expect(f.collect(path, lostAt(1))).rejects.toThrow("taken over");
    expect(await refs()).toBe(before);
  });

  test.each([1, 2])("when it is to keep what lay beside finished work, asked for the %i. time", async (nth) => {
    await plainGit(path, "stash", "push", "--quiet", "--include-untracked");
    await write(path, { [ARTIFACT]: "done" });
    const { fence, asked } = lostAt(nth);
    await expect(f.collect(path, { fence })).rejects.toThrow("taken over");
    expect(await refs()).toBe(asked.at(-1));
    // The ref by which work counts as collected comes last: what lay beside it is kept by then.
    expect(asked.map((seen) => seen.includes("refs/orchestrator/wip/1"))).toEqual([false, true].slice(0, nth));
    expect(await refs()).not.toContain("refs/orchestrator/runs/");
  });

  test("when it is to keep what a run without success left", async () => {
    const before = await refs();
    await expect(f.keep(path, lostAt(1))).rejects.toThrow("taken over");
    expect(await refs()).toBe(before);
  });

  test("when it is to commit what the stager wrote", async () => {
    const before = await refs();
    const file = { git: f.git, mirror: f.mirror, parent: f.base, path: ARTIFACT, content: "x", message: "m", runId: 1 };
    await expect(commitFile({ ...file, ...lostAt(1) })).rejects.toThrow("taken over");
    expect(await refs()).toBe(before);
  });

  describe("when it is to bring work into the base branch", () => {
    const merge = async (how: "merge" | "squash", { fence }: { fence: () => Promise<void> }) => {
      const commit = await f.commitAtRemote(BRANCH, { "new.txt": "new" });
      const mirror = f.mirrorWith({ merge: how });
      const options = { git: f.git, mirror, baseBranch: "main", commit, how, message: "m", points: noPoints };
      return mergeIntoBase({ ...options, fence });
    };

    test.each(["merge", "squash"] as const)("%s: before it has fetched", async (how) => {
      const before = await refs();
      await expect(merge(how, lostAt(1))).rejects.toThrow("taken over");
      expect(await refs()).toBe(before);
    });

    test.each([
      ["merge", 2],
      ["squash", 2],
      ["squash", 3],
    ] as const)("%s: asked for the %i. time", async (how, nth) => {
      const { fence, asked } = lostAt(nth);
      await expect(merge(how, { fence })).rejects.toThrow("taken over");
      expect(asked).toHaveLength(nth);
      expect(await refs()).toBe(asked.at(-1));
      expect(asked.map((seen) => seen.includes("refs/orchestrator/squashed/"))).toEqual(asked.map((_, at) => at === 2));
      expect(await plainGit(f.origin, "rev-parse", "main")).toBe(f.base);
    });
  });
});
