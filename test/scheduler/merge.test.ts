import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Config, RepoConfig } from "@orchestrator/shared/config/config.ts";
import { describe, expect, test } from "vitest";
import { git } from "../helpers/git.ts";
import { setPreReceive } from "../helpers/remote_repository.ts";
import { makeSite, postTask, type Site, startTestScheduler, taskWhen } from "../helpers/scheduler.ts";
import { writeArtifact } from "../helpers/write_artifact.ts";

const repos = (site: Site, over: Partial<RepoConfig>): Pick<Config, "repos"> => ({
  repos: { shop: { ...site.config.repos.shop!, ...over } },
});

/** Somebody else pushes to main while the item is under way. */
const pushToMain = async (site: Site, path: string, text: string): Promise<void> => {
  const seed = join(site.folder, "seed");
  await writeFile(join(seed, path), text);
  await git(seed, "add", "-A");
  await git(seed, "commit", "-q", "-m", `somebody else's ${path}`);
  await git(seed, "push", "-q", site.remote, "HEAD:main");
};

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";

test("merge: after the deployment the branch stands in main as a merge commit, beside what others pushed meanwhile", async () => {
  const site = await makeSite();
  const scheduler = await startTestScheduler(site, { config: repos(site, { merge: "merge" }) });
  await pushToMain(site, "other.txt", "theirs\n");
  await postTask(scheduler, { workItemId: "ORCH-1", title: "Add a thing" });
  const { task, events } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(task.status).toBe("done");
  const main = await git(site.remote, "rev-parse", "main");
  expect(events.find(({ kind }) => kind === "merged")?.detail).toEqual({ into: "main", commit: main });
  expect((await git(site.remote, "log", "-1", "--format=%P %s", "main")).split(" ").slice(1)).toEqual([
    task.head,
    ..."ORCH-1: Add a thing".split(" "),
  ]);
  expect(await git(site.remote, "show", "main:other.txt")).toBe("theirs");
});

test("squash: main gets one commit with the work in it, and no second one when the settle has to be repeated", async () => {
  const site = await makeSite();
  const config = repos(site, { merge: "squash" });
  const scheduler = await startTestScheduler(site, { config });
  await postTask(scheduler, { workItemId: "ORCH-1" });
  const { task } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(task.status).toBe("done");
  expect(await git(site.remote, "rev-list", "--count", "main")).toBe("2");
  expect(await git(site.remote, "diff", "--stat", "main", "work/ORCH-1")).toBe("");
});

test("a conflict sends the item back to development with the paths, and it reaches done once that is resolved", async () => {
  const site = await makeSite();
  await site.hook(
    "development",
    'git merge -q origin/main 2>/dev/null || { git checkout -q --theirs . && git add -A && git -c user.name=Dev -c user.email=d@x commit -qm "resolve"; }\n',
  );
  const config = repos(site, { merge: "merge" });
  const pushed = join(site.folder, "pushed");
  await site.hook(
    "deploy",
    `[ -e ${pushed} ] && exit 0
touch ${pushed}
cd ${join(site.folder, "seed")} && echo theirs >code.txt && git -c user.name=Ann -c user.email=a@x commit -qam theirs && git push -q ${site.remote} HEAD:main
`,
  );
  const scheduler = await startTestScheduler(site, { config });
  await postTask(scheduler, { workItemId: "ORCH-1" });
  const { task, events, jobs } = await taskWhen(scheduler, "ORCH-1", isOver);
  const returned = events.filter(({ kind }) => kind === "returned");
  expect(returned.map(({ detail }) => [detail.from, detail.to])).toEqual([["deploy", "development"]]);
  expect(jobs.filter((job) => job.stage === "development")[1]?.taskContent).toContain("conflicts in code.txt");
  expect(task).toMatchObject({ status: "done", returns: 1 });
  await git(site.remote, "merge-base", "--is-ancestor", task.head!, "main");
});

describe("a remote that refuses the base branch", () => {
  test("is a tool error: the agent's deployment is not run again, and the item waits for the remote", async () => {
    const site = await makeSite();
    await setPreReceive(site.remote, 'while read old new ref; do [ "$ref" = refs/heads/main ] && exit 1; done; exit 0');
    const scheduler = await startTestScheduler(site, { config: repos(site, { merge: "merge" }) });
    await postTask(scheduler, { workItemId: "ORCH-1" });
    const waits = ({ events }: { events: { kind: string }[] }) => events.some(({ kind }) => kind === "retried");
    const { task, runs } = await taskWhen(scheduler, "ORCH-1", waits);
    expect(task).toMatchObject({ status: "active", stage: "deploy" });
    expect(runs.at(-1)).toMatchObject({ outcome: "tool_error", outcomeClass: "git_push" });

    await setPreReceive(site.remote, "exit 0");
    await scheduler.context.storage.write(async (tx) => {
      await tx.run("UPDATE jobs SET available_at = ? WHERE status = 'queued'", [tx.now]);
      tx.queueOpened();
    });
    const over = await taskWhen(scheduler, "ORCH-1", isOver);
    expect(over.task.status).toBe("done");
    expect(over.runs.filter((run) => run.stage === "deploy" && run.pid !== null)).toHaveLength(1);
    await git(site.remote, "merge-base", "--is-ancestor", over.task.head!, "main");
  });
});

test("a repository that is not pushed is merged in its mirror only", async () => {
  const site = await makeSite();
  const scheduler = await startTestScheduler(site, { config: repos(site, { merge: "merge", push: false }) });
  const before = await git(site.remote, "for-each-ref");
  for (const workItemId of ["ORCH-1", "ORCH-2"]) {
    await postTask(scheduler, { workItemId });
    expect((await taskWhen(scheduler, workItemId, isOver)).task.status).toBe("done");
  }
  expect(await git(site.remote, "for-each-ref")).toBe(before);
  const mirror = join(site.config.reposDir, "shop.git");
  const merged = await git(mirror, "log", "--merges", "--format=%s", "refs/heads/main");
  expect(merged.split("\n")).toEqual(["ORCH-2: A title", "ORCH-1: A title"]);
});

describe("a repository that is not pushed, once something was merged in its mirror", () => {
  const local = (site: Site) => ({ config: repos(site, { merge: "merge", push: false }) });

  test("a developer who changes no code has changed none: what others have brought into the base is not this branch's", async () => {
    const site = await makeSite();
    const scheduler = await startTestScheduler(site, local(site));
    await postTask(scheduler, { workItemId: "ORCH-1" });
    expect((await taskWhen(scheduler, "ORCH-1", isOver)).task.status).toBe("done");
    await site.hook("development", `${writeArtifact()}\nexit 99\n`);
    await postTask(scheduler, { workItemId: "ORCH-2" });
    const wasJudged = ({ runs }: { runs: { stage: string; outcome: string | null }[] }) =>
      runs.some(({ stage, outcome }) => stage === "development" && outcome !== null);
    const { runs } = await taskWhen(scheduler, "ORCH-2", wasJudged);
    expect(runs.at(-1)).toMatchObject({ outcome: "failed", reason: expect.stringContaining("must change code") });
  });

  test("a conflict is resolved by what the item is told: origin/<base> in the workspace is the base that it conflicts with", async () => {
    const site = await makeSite();
    const scheduler = await startTestScheduler(site, local(site));
    // Both are cut from the same base, and both add the same file.
    await scheduler.api.pauseQueue({ repo: "shop", reason: "until both are there" });
    for (const workItemId of ["ORCH-1", "ORCH-2"]) await postTask(scheduler, { workItemId });
    await site.hook(
      "development",
      'git merge -q origin/main 2>/dev/null || { git checkout -q --theirs . && git add -A && git -c user.name=Dev -c user.email=d@x commit -qm "resolve"; }\n',
    );
    await scheduler.api.resumeQueue({ repo: "shop" });
    const first = await taskWhen(scheduler, "ORCH-1", isOver);
    const second = await taskWhen(scheduler, "ORCH-2", isOver);
    expect([first.task.status, second.task.status]).toEqual(["done", "done"]);
    expect(first.task.returns + second.task.returns).toBe(1);
    const mirror = join(site.config.reposDir, "shop.git");
    for (const { head } of [first.task, second.task]) {
      await git(mirror, "merge-base", "--is-ancestor", head!, "refs/heads/main");
    }
  });

  test("its prompts and the diff that an agent is shown are those of the base as it stands there", async () => {
    const site = await makeSite();
    await site.hook(
      "development",
      "mkdir -p .orchestrator/prompts && echo 'You are terse.' >.orchestrator/prompts/analyst.md\n",
    );
    const { command } = site.config.agents.default!;
    const asked = join(site.folder, "asked");
    const tee: [string, ...string[]] = [
      "/bin/sh",
      "-c",
      `tee "${asked}-$ORCH_WORK_ITEM_ID-$ORCH_STAGE" | "$@"`,
      "tee",
      ...command,
    ];
    const agents = { default: { ...site.config.agents.default!, command: tee } };
    const scheduler = await startTestScheduler(site, { config: { ...local(site).config, agents } });
    await postTask(scheduler, { workItemId: "ORCH-1" });
    await taskWhen(scheduler, "ORCH-1", isOver);
    await site.hook("analysis", `git diff --name-only origin/main...HEAD >${join(site.folder, "diff")}\n`);
    await postTask(scheduler, { workItemId: "ORCH-2" });
    expect((await taskWhen(scheduler, "ORCH-2", isOver)).task.status).toBe("done");
    expect(await readFile(`${asked}-ORCH-1-analysis`, "utf8")).not.toContain("You are terse.");
    expect(await readFile(`${asked}-ORCH-2-analysis`, "utf8")).toContain("You are terse.");
    expect(await readFile(join(site.folder, "diff"), "utf8")).toBe("");
  });
});
