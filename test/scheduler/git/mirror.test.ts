import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createGit } from "@orchestrator/shared/git/run_git.ts";
import { supervise } from "@orchestrator/shared/git/supervise.ts";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createMirrors } from "../../../services/scheduler/git/mirror.ts";
import { BRANCH, exists, type Fixture, makeFixture, plainGit, script, until, write } from "./fixture.ts";

let f: Fixture;
beforeEach(async () => {
  f = await makeFixture();
});
afterEach(() => f.remove());

describe("fetch", () => {
  test("makes a bare mirror without hooks and brings the remote's branches", async () => {
    expect(await f.mirror.resolve("refs/remotes/origin/main")).toBe(f.base);
    expect(await f.ask("rev-parse", "--is-bare-repository")).toBe("true");
    expect(await exists(join(f.mirror.gitDir, "hooks"))).toBe(false);
    const feature = await f.commitAtRemote("feature/x", { "x.txt": "x" });
    await f.mirror.fetch();
    expect(await f.mirror.resolve("refs/remotes/origin/feature/x")).toBe(feature);
  });

  test("follows what was deleted, renamed to a folder or rewritten at the remote, and leaves everything else alone", async () => {
    const gone = await f.commitAtRemote("topic", { "x.txt": "x" });
    await f.mirror.fetch();
    for (const ref of [`refs/heads/${BRANCH}`, "refs/orchestrator/runs/1", "refs/orchestrator/wip/2"]) {
      expect(await f.mirror.updateRef(ref, gone, null)).toBe(true);
    }
    await plainGit(f.clone, "push", "--quiet", "origin", ":topic", "topic:topic/deeper");
    await plainGit(f.clone, "checkout", "--quiet", "main");
    await plainGit(f.clone, "commit", "--quiet", "--amend", "-m", "Begin again");
    await plainGit(f.clone, "push", "--quiet", "--force", "origin", "main");
    await f.mirror.fetch();
    expect(await f.mirror.resolve("refs/remotes/origin/topic")).toBe(null);
    expect(await f.mirror.resolve("refs/remotes/origin/topic/deeper")).toBe(gone);
    expect(await f.mirror.resolve("refs/remotes/origin/main")).toBe(await plainGit(f.clone, "rev-parse", "main"));
    for (const ref of [`refs/heads/${BRANCH}`, "refs/orchestrator/runs/1", "refs/orchestrator/wip/2"]) {
      expect(await f.mirror.resolve(ref)).toBe(gone);
    }
  });

  test("a remote that is not there is a git_fetch error that says what git said", async () => {
    const missing = f.mirrorWith({ url: join(f.dir, "nowhere.git") });
    await expect(missing.fetch()).rejects.toMatchObject({
      code: "git_fetch",
      message: expect.stringContaining("nowhere.git"),
    });
  });

  test("a url cannot become an option, and a program is not a remote", async () => {
    const canary = join(f.dir, "canary");
    const evil = await script(join(f.dir, "evil"), `touch ${canary}`);
    await expect(f.mirrorWith({ url: `--upload-pack=${evil}` }).fetch()).rejects.toMatchObject({ code: "git_fetch" });
    await expect(f.mirrorWith({ url: `ext::${evil}` }).fetch()).rejects.toMatchObject({ code: "git_fetch" });
    expect(await exists(canary)).toBe(false);
  });

  test("an aborted fetch ends its processes, and the next holder finds no lock in its way", async () => {
    const controller = new AbortController();
    const lock = join(f.mirror.gitDir, "refs/remotes/origin/main.lock");
    await f.commitAtRemote("main", { "x.txt": "x" });
    const aborted = f.mirror.exclusive(async () => {
      // What a git that was killed in the middle leaves behind.
      await writeFile(lock, "");
      await expect(f.mirror.fetch()).rejects.toMatchObject({ code: "git_fetch" });
      controller.abort(new Error("enough"));
      await f.mirror.fetch({ signal: controller.signal });
    });
    await expect(aborted).rejects.toThrow("enough");
    expect(f.leftovers()).toEqual([]);
    await f.mirror.exclusive(() => f.mirror.fetch());
    expect(await exists(lock)).toBe(false);
    expect(await f.mirror.resolve("refs/remotes/origin/main")).toBe(await plainGit(f.clone, "rev-parse", "main"));
  });
});

test("what an earlier failure left is not removed by a scheduler that has been superseded meanwhile", async () => {
  const lock = join(f.mirror.gitDir, "refs/remotes/origin/main.lock");
  const failing = f.mirror.exclusive(async () => {
    await writeFile(lock, "");
    throw new Error("cut short");
  });
  await expect(failing).rejects.toThrow("cut short");
  const fence = async (): Promise<void> => {
    throw new Error("another scheduler has taken over");
  };
  await expect(f.mirror.exclusive(async () => "work", { fence })).rejects.toThrow("taken over");
  // It may be the lock of the new one's git.
  expect(await exists(lock)).toBe(true);
  await f.mirror.exclusive(async () => "work", { fence: async () => {} });
  expect(await exists(lock)).toBe(false);
});

describe("refs and commits", () => {
  test("a ref is moved only from what it is expected to be", async () => {
    const next = await f.commitAtRemote("main", { "x.txt": "x" });
    await f.mirror.fetch();
    const ref = `refs/heads/${BRANCH}`;
    expect(await f.mirror.updateRef(ref, f.base, null)).toBe(true);
    expect(await f.mirror.updateRef(ref, next, null)).toBe(false);
    expect(await f.mirror.updateRef(ref, next, next)).toBe(false);
    expect(await f.mirror.resolve(ref)).toBe(f.base);
    expect(await f.mirror.updateRef(ref, next, f.base)).toBe(true);
    expect(await f.mirror.resolve(ref)).toBe(next);
  });

  test("a ref that cannot be moved for another reason is an error, not a lost race", async () => {
    await f.mirror.updateRef("refs/heads/a", f.base, null);
    await expect(f.mirror.updateRef("refs/heads/a/b", f.base, null)).rejects.toMatchObject({ code: "git" });
  });

  test("answers about commits", async () => {
    const next = await f.commitAtRemote("main", { "src/index.js": "moved", "ü.txt": "x" });
    await f.mirror.fetch();
    const { mirror, base } = f;
    expect(await mirror.isAncestor(base, next)).toBe(true);
    expect(await mirror.isAncestor(next, base)).toBe(false);
    expect(await mirror.mergeBase(next, base)).toBe(base);
    expect(await mirror.hasCommit(next)).toBe(true);
    expect(await mirror.hasCommit("0123456789012345678901234567890123456789")).toBe(false);
    expect(await mirror.resolve("refs/heads/nothing")).toBe(null);
    expect((await mirror.changedPaths(base, next)).sort()).toEqual(["src/index.js", "ü.txt"]);
  });

  test("both names of a renamed file count as changed", async () => {
    await plainGit(f.clone, "mv", "src/index.js", "src/main.js");
    await plainGit(f.clone, "commit", "--quiet", "-m", "Rename");
    await plainGit(f.clone, "push", "--quiet", "origin", "main");
    await f.mirror.fetch();
    const next = await plainGit(f.clone, "rev-parse", "HEAD");
    expect((await f.mirror.changedPaths(f.base, next)).sort()).toEqual(["src/index.js", "src/main.js"]);
  });
});

describe("exclusive", () => {
  const gate = (): { opened: Promise<void>; open: () => void } => {
    let open = (): void => undefined;
    const opened = new Promise<void>((resolve) => {
      open = resolve;
    });
    return { opened, open };
  };

  test("one at a time, in the order of asking, whatever becomes of each", async () => {
    const order: string[] = [];
    const first = gate();
    const one = f.mirror.exclusive(async () => {
      order.push("one begins");
      await first.opened;
      order.push("one ends");
    });
    const two = f.mirror.exclusive(async () => {
      order.push("two");
      throw new Error("two fails");
    });
    const three = f.mirror.exclusive(async () => order.push("three"));
    first.open();
    await one;
    await expect(two).rejects.toThrow("two fails");
    await three;
    expect(order).toEqual(["one begins", "one ends", "two", "three"]);
  });

  test("whoever waits can give up, is told so, and does not hold up the others", async () => {
    const first = gate();
    const waits: boolean[] = [];
    const controller = new AbortController();
    const one = f.mirror.exclusive(() => first.opened);
    const two = f.mirror.exclusive(async () => "never", {
      signal: controller.signal,
      onWait: (waiting) => waits.push(waiting),
    });
    const three = f.mirror.exclusive(async () => "three");
    const reason = new Error("expired");
    controller.abort(reason);
    await expect(two).rejects.toBe(reason);
    expect(waits).toEqual([true, false]);
    first.open();
    await one;
    expect(await three).toBe("three");
    await expect(f.mirror.exclusive(async () => "x", { signal: controller.signal })).rejects.toBe(reason);
  });

  test("a git that no signal ends does not keep the others waiting", async () => {
    await mkdir(join(f.dir, "bin"));
    await script(join(f.dir, "bin/git"), `touch ${join(f.dir, "bin/started")}; exec sleep 300`);
    const parentEnv = { PATH: `${join(f.dir, "bin")}:${process.env.PATH}` };
    const git = createGit({ instanceId: f.instanceId, parentEnv, networkConfig: null }, (program, args, o) =>
      supervise(program, args, o, { graceMs: 0, goneMs: 0, signalGroup: () => undefined }),
    );
    const { repo, gitDir } = f.mirror;
    const mirror = createMirrors({ git, reposDir: dirname(gitDir), repos: { shop: repo } }).get("shop");
    const controller = new AbortController();
    const one = mirror.exclusive(() => mirror.mergeBase("main", "topic", { signal: controller.signal }));
    const two = mirror.exclusive(async () => "two");
    await until(() => exists(join(f.dir, "bin/started")));
    controller.abort();
    try {
      await expect(one).rejects.toThrow("git merge-base was told to end, and cannot be ended");
      expect(await two).toBe("two");
    } finally {
      for (const pid of f.leftovers()) process.kill(pid, "SIGKILL");
    }
  });

  test("nobody is told to wait where nothing has to be waited for", async () => {
    const waits: boolean[] = [];
    await f.mirror.exclusive(async () => undefined, { onWait: (waiting) => waits.push(waiting) });
    expect(waits).toEqual([]);
  });
});

describe("clearStaleLocks", () => {
  test("removes what a killed git left, and nothing else", async () => {
    const { gitDir } = f.mirror;
    const stale = [
      "packed-refs.lock",
      "config.lock",
      "gc.pid",
      "refs/remotes/origin/main.lock",
      "objects/pack/tmp_pack_x",
      "objects/pack/pack-0123456789012345678901234567890123456789.keep",
      "objects/tmp_objdir-incoming-x/17/tmp_obj_x",
      "objects/17/tmp_obj_x",
      "orchestrator-scratch/work-x/pack",
    ];
    const before = await f.ask("rev-list", "--objects", "--all");
    await write(gitDir, Object.fromEntries(stale.map((path) => [path, ""])));
    await f.mirror.clearStaleLocks();
    for (const path of stale) expect([path, await exists(join(gitDir, path))]).toEqual([path, false]);
    expect(await readdir(join(gitDir, "objects/pack"))).not.toEqual([]);
    expect(await f.ask("rev-list", "--objects", "--all")).toBe(before);
    await f.mirror.fetch();
  });

  test("has nothing to do where there is no mirror yet", async () => {
    await rm(f.mirror.gitDir, { recursive: true });
    expect(await f.mirror.clearStaleLocks()).toEqual([]);
  });
});

describe("tidy", () => {
  test("packs what has piled up, keeps even what no ref names, and does nothing otherwise", async () => {
    expect(await f.mirror.tidy()).toEqual({ kind: "not_needed" });
    const blobs: string[] = [];
    for (let n = 0; n < 26; n++) {
      const blob = await f.git.ok(["hash-object", "-w", "--stdin"], { gitDir: f.mirror.gitDir, input: `content ${n}` });
      blobs.push(blob.trim());
      await f.git.ok(["pack-objects", "-q", join(f.mirror.gitDir, "objects/pack/pack")], {
        gitDir: f.mirror.gitDir,
        input: blob,
      });
    }
    expect(await f.mirror.tidy()).toMatchObject({ kind: "tidied" });
    const packs = (await readdir(join(f.mirror.gitDir, "objects/pack"))).filter((name) => name.endsWith(".pack"));
    expect(packs.length).toBeLessThan(5);
    for (const blob of blobs) expect(await f.ask("cat-file", "-t", blob)).toBe("blob");
    expect(await f.mirror.resolve("refs/remotes/origin/main")).toBe(f.base);
    expect(await f.mirror.tidy()).toEqual({ kind: "not_needed" });
  });
});
