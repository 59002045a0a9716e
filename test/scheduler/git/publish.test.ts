import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Git } from "@orchestrator/shared/git/run_git.ts";
import { noPoints, type Points } from "@orchestrator/shared/points.ts";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { commitFile } from "../../../services/scheduler/git/commit_file.ts";
import { publishCommit } from "../../../services/scheduler/git/publish.ts";
import { startCommit } from "../../../services/scheduler/git/start_commit.ts";
import { BRANCH, exists, type Fixture, makeFixture, plainGit, script, until } from "./fixture.ts";

let f: Fixture;
beforeEach(async () => {
  f = await makeFixture();
});
afterEach(() => f.remove());

/** A run's commit on top of `parent`, recorded under the run's ref. */
const runCommit = (runId: number, parent = f.base): Promise<string> =>
  commitFile({
    git: f.git,
    mirror: f.mirror,
    parent,
    path: `file-${runId}.txt`,
    content: "x",
    message: "stage: W-1",
    runId,
    fence: async () => {},
  });

type Options = Parameters<typeof publishCommit>[0];
const publish = (commit: string, options: Partial<Options> = {}) =>
  publishCommit({
    git: f.git,
    mirror: f.mirror,
    branch: BRANCH,
    commit,
    start: f.base,
    fence: async () => undefined,
    ownRun: (runId) => runId < 100,
    points: noPoints,
    ...options,
  });

const start = (head: string | null, options: Partial<Parameters<typeof startCommit>[0]> = {}) =>
  startCommit({
    git: f.git,
    mirror: f.mirror,
    branch: BRANCH,
    baseBranch: "main",
    head,
    ownRun: (id) => id < 100,
    ...options,
  });

const atRemote = async (branch = BRANCH): Promise<string> =>
  plainGit(f.origin, "for-each-ref", "--format=%(objectname)", `refs/heads/${branch}`);
const local = (): Promise<string | null> => f.mirror.resolve(`refs/heads/${BRANCH}`);

const preReceive = (body: string): Promise<string> =>
  mkdir(join(f.origin, "hooks"), { recursive: true }).then(() => script(join(f.origin, "hooks/pre-receive"), body));

describe("publishing", () => {
  test("pushes the commit, then moves the local branch; again finds it done", async () => {
    const one = await runCommit(1);
    expect(await publish(one)).toEqual({ kind: "published" });
    expect(await atRemote()).toBe(one);
    expect(await local()).toBe(one);
    expect(await publish(one)).toEqual({ kind: "published" });
    const two = await runCommit(2, one);
    expect(await publish(two, { start: one })).toEqual({ kind: "published" });
    expect(await atRemote()).toBe(two);
    expect(await local()).toBe(two);
  });

  test("only that branch, nothing of the orchestrator's own, no tag, no other branch", async () => {
    await plainGit(f.mirror.gitDir, "tag", "v1", f.base);
    await publish(await runCommit(1));
    expect(await plainGit(f.origin, "for-each-ref", "--format=%(refname)")).toBe(
      `refs/heads/main\nrefs/heads/${BRANCH}`,
    );
  });

  test("after a crash between push and settle", async () => {
    const one = await runCommit(1);
    await plainGit(f.mirror.gitDir, "push", "--quiet", f.origin, `${one}:refs/heads/${BRANCH}`);
    expect(await publish(one)).toEqual({ kind: "published" });
    expect(await local()).toBe(one);
  });

  test("a repository that is not pushed: the remote is not touched", async () => {
    const mirror = f.mirrorWith({ push: false, url: join(f.dir, "unreachable") });
    const one = await runCommit(1);
    expect(await publish(one, { mirror })).toEqual({ kind: "published" });
    expect(await local()).toBe(one);
    expect(await atRemote()).toBe("");
  });

  test("a branch that was deleted at the remote is made again", async () => {
    const one = await runCommit(1);
    await publish(one);
    await plainGit(f.origin, "branch", "-D", BRANCH);
    const two = await runCommit(2, one);
    expect(await publish(two, { start: one })).toEqual({ kind: "published" });
    expect(await atRemote()).toBe(two);
  });

  test("never a commit that does not descend from where the run began", async () => {
    const one = await runCommit(1);
    const two = await runCommit(2);
    await expect(publish(two, { start: one })).rejects.toMatchObject({ code: "git_ref" });
    expect(await atRemote()).toBe("");
  });

  test("points and fence stand before what they guard", async () => {
    const seen: string[] = [];
    const points: Points = { reach: async (name) => void seen.push(name) };
    await publish(await runCommit(1), { points, fence: async () => void seen.push("fence") });
    expect(seen).toEqual(["push.before", "fence", "push.after", "ref.before", "fence", "ref.after"]);
  });
});

describe("the remote has moved", () => {
  test("by somebody else: says whose, and forces nothing", async () => {
    const theirs = await f.commitAtRemote(BRANCH, { "theirs.txt": "x" });
    expect(await publish(await runCommit(1))).toEqual({
      kind: "foreign",
      sha: theirs,
      author: "Somebody <somebody@example.org>",
    });
    expect(await atRemote()).toBe(theirs);
    expect(await local()).toBe(null);
  });

  test("by somebody on top of the very commit", async () => {
    const one = await runCommit(1);
    await publish(one);
    const theirs = await f.commitAtRemote(BRANCH, { "theirs.txt": "x" });
    expect(await publish(one)).toMatchObject({ kind: "foreign", sha: theirs });
    expect(await publish(await runCommit(2, one), { start: one })).toMatchObject({ kind: "foreign", sha: theirs });
  });

  test("by another run of this task", async () => {
    const one = await runCommit(1);
    await plainGit(f.mirror.gitDir, "push", "--quiet", f.origin, `${one}:refs/heads/${BRANCH}`);
    expect(await publish(await runCommit(2))).toEqual({ kind: "behind_own", commit: one });
    // A run of another task is somebody else.
    expect(await publish(await runCommit(3), { ownRun: () => false })).toMatchObject({
      kind: "foreign",
      sha: one,
      author: "Orchestrator <orchestrator@localhost>",
    });
  });

  test("by somebody who amended a run's commit: the trailer is still there, the commit is theirs", async () => {
    const one = await runCommit(1);
    await publish(one);
    await plainGit(f.clone, "fetch", "--quiet", "origin");
    await plainGit(f.clone, "checkout", "--quiet", BRANCH);
    await plainGit(f.clone, "commit", "--quiet", "--amend", "--no-edit", "--reset-author");
    await plainGit(f.clone, "push", "--quiet", "--force", "origin", BRANCH);
    const theirs = await atRemote();
    expect(await publish(await runCommit(2, one), { start: one })).toMatchObject({ kind: "foreign", sha: theirs });
    await f.mirror.fetch();
    expect(await start(one)).toMatchObject({ kind: "foreign", sha: theirs });
  });
});

test("a commit that only says it is a run's is somebody else's: a run's own is kept before it is pushed", async () => {
  const theirs = await f.commitAtRemote(BRANCH, { "theirs.txt": "x" }, "analysis: W-1\n\nOrchestrator-Run: 1");
  expect(await publish(await runCommit(2))).toMatchObject({ kind: "foreign", sha: theirs });
  expect(await start(f.base)).toMatchObject({ kind: "foreign", sha: theirs });
  const mirror = f.mirrorWith({ push: false });
  await f.mirror.updateRef(`refs/heads/${BRANCH}`, theirs, null);
  expect(await start(f.base, { mirror })).toMatchObject({ kind: "foreign", sha: theirs });
});

describe("the remote", () => {
  test("refuses: a git_push error with what it said", async () => {
    await preReceive('echo "no commits on fridays" >&2; exit 1');
    const one = await runCommit(1);
    await expect(publish(one)).rejects.toMatchObject({
      code: "git_push",
      message: expect.stringContaining("no commits on fridays"),
    });
    expect(await local()).toBe(null);
  });

  test("cannot be reached", async () => {
    const mirror = f.mirrorWith({ url: join(f.dir, "nowhere.git") });
    await expect(publish(await runCommit(1), { mirror })).rejects.toMatchObject({ code: "git_push" });
  });

  test("hangs: the push is ended in time, with every process of it", async () => {
    await preReceive(`touch ${f.dir}/hanging; trap '' TERM; sleep 600 & while :; do sleep 600; done`);
    // A second stands for the minutes that a push may take.
    const hasty: Git = {
      ...f.git,
      run: (args, options) => f.git.run(args, args[0] === "push" ? { ...options, timeoutMs: 1000 } : options),
    };
    await expect(publish(await runCommit(1), { git: hasty })).rejects.toMatchObject({
      code: "git_push",
      message: expect.stringContaining("did not end within"),
    });
    expect(f.leftovers()).toEqual([]);
  });

  test("hangs, and the finalizer is given up: the same at once, and the next one works", async () => {
    await preReceive(`touch ${f.dir}/hanging; sleep 600`);
    const controller = new AbortController();
    const reason = new Error("expired");
    const one = await runCommit(1);
    const pushing = f.mirror.exclusive(() => publish(one, { signal: controller.signal }));
    const after = f.mirror.exclusive(() => local());
    await until(() => exists(join(f.dir, "hanging")));
    expect(f.leftovers().length).toBeGreaterThan(2);
    controller.abort(reason);
    await expect(pushing).rejects.toBe(reason);
    expect(f.leftovers()).toEqual([]);
    expect(await after).toBe(null);
    await preReceive("exit 0");
    expect(await f.mirror.exclusive(() => publish(one))).toEqual({ kind: "published" });
  });

  test("takes the commit, but its answer gets lost: ls-remote tells", async () => {
    await mkdir(join(f.origin, "hooks"), { recursive: true });
    // The branch has been moved; the remote's end dies before it can say so.
    await script(join(f.origin, "hooks/post-receive"), `touch ${f.dir}/died; kill -9 $PPID`);
    const one = await runCommit(1);
    expect(await publish(one)).toEqual({ kind: "published" });
    expect(await exists(join(f.dir, "died"))).toBe(true);
    expect(await local()).toBe(one);
  });
});

describe("a scheduler that was superseded", () => {
  const superseded = new Error("a newer epoch");

  test("just before the push: nothing is pushed", async () => {
    const fence = async (): Promise<void> => {
      throw superseded;
    };
    await expect(publish(await runCommit(1), { fence })).rejects.toBe(superseded);
    expect(await atRemote()).toBe("");
    expect(await local()).toBe(null);
  });

  test("between push and ref: the local branch stays", async () => {
    let passes = 1;
    const fence = async (): Promise<void> => {
      passes -= 1;
      if (passes < 0) throw superseded;
    };
    const one = await runCommit(1);
    await expect(publish(one, { fence })).rejects.toBe(superseded);
    expect(await atRemote()).toBe(one);
    expect(await local()).toBe(null);
  });

  test("past its last fence: the compare-and-set is lost, and the newer commit stays", async () => {
    const one = await runCommit(1);
    const two = await runCommit(2, one);
    const points: Points = {
      reach: async (name) => {
        if (name === "ref.before") await f.mirror.updateRef(`refs/heads/${BRANCH}`, two, null);
      },
    };
    expect(await publish(one, { points })).toEqual({ kind: "behind_own", commit: two });
    expect(await local()).toBe(two);
  });
});

describe("the local branch", () => {
  test("left from an earlier task on a branch of that name gives way to what the remote has taken", async () => {
    const earlier = await runCommit(200);
    await f.mirror.updateRef(`refs/heads/${BRANCH}`, earlier, null);
    expect(await start(null)).toEqual({ kind: "start", commit: f.base });
    const one = await runCommit(1);
    expect(await publish(one)).toEqual({ kind: "published" });
    expect(await local()).toBe(one);
  });

  test("is the branch where nothing is pushed: somebody else's commit on it is not overwritten", async () => {
    const mirror = f.mirrorWith({ push: false });
    const earlier = await runCommit(200);
    await f.mirror.updateRef(`refs/heads/${BRANCH}`, earlier, null);
    expect(await start(null, { mirror })).toMatchObject({ kind: "foreign", sha: earlier });
    expect(await publish(await runCommit(1), { mirror })).toMatchObject({ kind: "foreign", sha: earlier });
    expect(await local()).toBe(earlier);
  });

  test("behind the head, or missing, is brought up", async () => {
    const one = await runCommit(1);
    const two = await runCommit(2, one);
    await f.mirror.updateRef(`refs/heads/${BRANCH}`, f.base, null);
    expect(await publish(two, { start: one })).toEqual({ kind: "published" });
    await plainGit(f.mirror.gitDir, "update-ref", "-d", `refs/heads/${BRANCH}`);
    expect(await publish(two, { start: one })).toEqual({ kind: "published" });
    expect(await local()).toBe(two);
  });

  test("that another branch's name stands in the way of is an error that says so", async () => {
    const mirror = f.mirrorWith({ push: false });
    await f.mirror.updateRef("refs/heads/work", f.base, null);
    await expect(publish(await runCommit(1), { mirror })).rejects.toMatchObject({
      code: "git",
      message: expect.stringContaining("refs/heads/work"),
    });
  });
});

describe("where a run starts", () => {
  test("at the base, at a branch that is there already, at the head", async () => {
    expect(await start(null)).toEqual({ kind: "start", commit: f.base });
    const theirs = await f.commitAtRemote(BRANCH, { "theirs.txt": "x" });
    await f.mirror.fetch();
    expect(await start(null)).toEqual({ kind: "start", commit: theirs });
    expect(await start(theirs)).toEqual({ kind: "start", commit: theirs });
    const one = await runCommit(1, theirs);
    // The remote is behind: a push that never happened.
    expect(await start(one)).toEqual({ kind: "start", commit: one });
  });

  test("at the head where the branch is gone from the remote", async () => {
    const one = await runCommit(1);
    expect(await start(one)).toEqual({ kind: "start", commit: one });
  });

  test("nowhere, where somebody else has committed: says whose", async () => {
    const theirs = await f.commitAtRemote(BRANCH, { "theirs.txt": "x" });
    await f.mirror.fetch();
    expect(await start(f.base)).toEqual({ kind: "foreign", sha: theirs, author: "Somebody <somebody@example.org>" });
  });

  test("at this task's own commits that were pushed and not settled: adopted", async () => {
    const one = await runCommit(1);
    await publish(one);
    await f.mirror.fetch();
    expect(await start(f.base)).toEqual({ kind: "adopt", commit: one });
    expect(await start(null)).toEqual({ kind: "adopt", commit: one });
    const mirror = f.mirrorWith({ push: false });
    expect(await start(f.base, { mirror })).toEqual({ kind: "adopt", commit: one });
    expect(await start(null, { mirror })).toEqual({ kind: "adopt", commit: one });
  });

  test("a base branch that is not there, or a head that the mirror has lost, is an error that names it", async () => {
    await expect(start(null, { baseBranch: "trunk" })).rejects.toMatchObject({
      code: "git_ref",
      message: expect.stringContaining('"trunk"'),
    });
    const lost = "0123456789012345678901234567890123456789";
    await expect(start(lost)).rejects.toMatchObject({ code: "git_ref", message: expect.stringContaining(lost) });
  });

  test("a trailer in somebody's text does not make a commit a run's own", async () => {
    const message = "Mine\n\nOrchestrator-Run: 1\n\nbut that is not the last paragraph";
    const theirs = await f.commitAtRemote(BRANCH, { "theirs.txt": "x" }, message);
    await f.mirror.fetch();
    expect(await start(f.base)).toMatchObject({ kind: "foreign", sha: theirs });
  });
});
