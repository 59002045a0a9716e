import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { FakeClock } from "../helpers/fake_clock.ts";
import { onlyStages } from "../helpers/on_the_way.ts";
import { makeSite, postTask, type Site, startTestScheduler, taskWhen } from "../helpers/scheduler.ts";
import { keepLog } from "./faults/kept_log.ts";

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";

/** A git in whose place `script` runs for `git repack`. */
const replaceRepack = async (site: Site, script: string): Promise<{ parentEnv: Record<string, string> }> => {
  const bin = join(site.folder, "bin");
  await mkdir(bin);
  const body = `case " $* " in *" repack "*) ${script};; esac\nPATH=${process.env.PATH}\nexec git "$@"\n`;
  await writeFile(join(bin, "git"), `#!/bin/sh\n${body}`, { mode: 0o755 });
  return { parentEnv: { ...site.config.parentEnv, PATH: `${bin}:${process.env.PATH}` } };
};

/** More packs in the mirror than are left as they are. They have no index, so that git does not look into them. */
const pileUp = async (site: Site): Promise<void> => {
  const packs = join(site.config.reposDir, "shop.git", "objects", "pack");
  for (let n = 0; n < 30; n++) await writeFile(join(packs, `pack-${n}.pack`), "");
};

test("a mirror that cannot be tidied up is worked in all the same, and what the failed git left in it does no harm", async () => {
  const site = await makeSite();
  const lock = join(site.config.reposDir, "shop.git/refs/orchestrator/runs/2.lock");
  const config = await replaceRepack(site, `touch ${lock}; echo "bad pack" >&2; exit 128`);
  const { log, said } = keepLog();
  const scheduler = await startTestScheduler(site, { log, config: { ...config, ...onlyStages(site, "analysis") } });
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await taskWhen(scheduler, "ORCH-1", isOver);
  await pileUp(site);
  await postTask(scheduler, { workItemId: "ORCH-2" });
  const { task, runs } = await taskWhen(scheduler, "ORCH-2", isOver);
  expect(task.status).toBe("done");
  expect(runs.map((run) => run.outcome)).toEqual(["succeeded"]);
  expect(said("tidied")).toMatchObject([
    { level: "warn", repo: "shop", err: { code: "git", message: expect.stringContaining("bad pack") } },
  ]);
});

test("the time that tidying up takes is not the launch's; an end that is asked for meanwhile is heeded", async () => {
  const site = await makeSite();
  const config = await replaceRepack(site, `touch ${site.folder}/tidying; exec sleep 600`);
  const clock = new FakeClock();
  const { log, said } = keepLog();
  const scheduler = await startTestScheduler(site, {
    log,
    clock,
    config: { ...config, ...onlyStages(site, "analysis") },
  });
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await taskWhen(scheduler, "ORCH-1", isOver);
  await pileUp(site);
  await postTask(scheduler, { workItemId: "ORCH-2" });
  await expect.poll(() => existsSync(join(site.folder, "tidying")), { timeout: 20_000 }).toBe(true);
  const [run] = scheduler.context.activeRuns.all();
  clock.advance(2 * site.config.launchTimeoutMs);
  await scheduler.reaper.sweep();
  expect([run?.phase, run?.endReason]).toEqual(["launching", null]);

  await scheduler.api.cancelTask({ workItemId: "ORCH-2" }, {});
  await scheduler.context.activeRuns.whenIdle();
  expect(said("tidied")).toEqual([]);
});
