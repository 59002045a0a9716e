import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ARTIFACT, BRANCH, type Fixture, makeFixture, plainGit, write } from "./fixture.ts";

const WIP = "refs/orchestrator/wip/1";

let f: Fixture;
let path: string;
beforeEach(async () => {
  f = await makeFixture({ ".gitignore": "*.log\n", "old.txt": "old\n" });
  await f.commitAtRemote("feature", { "feature.txt": "x" });
  await f.mirror.fetch();
  ({ path } = await f.prepare());
});
afterEach(() => f.remove());

const commitAll = async (message: string): Promise<string> => {
  await plainGit(path, "add", "--all");
  await plainGit(path, "commit", "--quiet", "-m", message);
  return plainGit(path, "rev-parse", "HEAD");
};
const parents = async (): Promise<string[]> => (await f.ask("rev-parse", `${WIP}^@`)).split("\n");

describe("nothing", () => {
  test("is kept where nothing was done", async () => {
    expect(await f.keep(path)).toEqual({ ref: null, notes: [] });
    expect(await f.mirror.resolve(WIP)).toBe(null);
  });

  test("is kept of what the remote has: another branch of it, an older commit", async () => {
    const start = await f.commitAtRemote("main", { "later.txt": "x" });
    await f.mirror.fetch();
    await f.prepare({ start });
    await plainGit(path, "branch", "local", "origin/feature");
    await plainGit(path, "checkout", "--quiet", `${start}^`);
    await plainGit(path, "tag", "-a", "v1", "-m", "x", "origin/feature");
    expect(await f.keep(path, { start })).toMatchObject({ ref: null });
  });

  test("is kept of an artifact of an earlier round that the launch took out: it is in the history", async () => {
    const start = await f.commitAtRemote("main", { [ARTIFACT]: "---\nwork_item: W-1\n---\n" });
    await f.mirror.fetch();
    await f.prepare({ start });
    expect(await f.keep(path, { start })).toEqual({ ref: null, notes: [] });
    await write(path, { "new.txt": "new" });
    expect(await f.keep(path, { start })).toEqual({ ref: WIP, notes: [] });
  });
});

describe("everything", () => {
  test("uncommitted files, the ignored artifact among them, and deletions", async () => {
    await write(path, { ".gitignore": "*.log\ndocs/\n", "new.txt": "new", [ARTIFACT]: "half", "x.log": "x" });
    await rm(join(path, "old.txt"));
    expect(await f.keep(path)).toEqual({ ref: WIP, notes: [] });
    expect((await f.ask("diff-tree", "-r", "--name-status", f.base, WIP)).split("\n").sort()).toEqual(
      ["M\t.gitignore", "D\told.txt", "A\tnew.txt", `A\t${ARTIFACT}`].sort(),
    );
    expect(await parents()).toEqual([f.base]);
    // It must not pass for a run's result, whoever pushes it.
    expect(await f.ask("log", "-1", "--format=%(trailers:key=Orchestrator-Run)", WIP)).toBe("");
  });

  test("commits on HEAD, on other branches, on none, and every stash", async () => {
    await write(path, { "a.txt": "a" });
    await commitAll("On the branch");
    await plainGit(path, "checkout", "--quiet", "-b", "side", f.base);
    await write(path, { "side.txt": "side" });
    const side = await commitAll("On the side");
    await plainGit(path, "worktree", "add", "--quiet", "--detach", join(f.dir, "worktree"), f.base);
    await write(join(f.dir, "worktree"), { "w.txt": "w" });
    await plainGit(join(f.dir, "worktree"), "add", "--all");
    await plainGit(join(f.dir, "worktree"), "commit", "--quiet", "-m", "In a worktree");
    const worktree = await plainGit(join(f.dir, "worktree"), "rev-parse", "HEAD");
    await plainGit(path, "checkout", "--quiet", BRANCH);
    await write(path, { "old.txt": "stashed first" });
    await plainGit(path, "stash", "--quiet");
    const first = await plainGit(path, "rev-parse", "stash@{0}");
    await write(path, { "old.txt": "stashed second" });
    await plainGit(path, "stash", "--quiet");
    const second = await plainGit(path, "rev-parse", "stash@{0}");
    await write(path, { "b.txt": "uncommitted" });
    const head = await plainGit(path, "rev-parse", "HEAD");
    await plainGit(path, "pack-refs", "--all");

    expect(await f.keep(path)).toEqual({ ref: WIP, notes: [] });
    const [onto, ...others] = await parents();
    expect(onto).toBe(head);
    expect(others.sort()).toEqual([first, second, side, worktree].sort());
    expect(await f.ask("show", `${WIP}:b.txt`)).toBe("uncommitted");
    expect(await f.ask("show", `${first}:old.txt`)).toBe("stashed first");
    expect(await f.ask("fsck", "--strict", "--no-dangling")).toBe("");
  });

  test("a branch that another one builds on is no parent of its own", async () => {
    await write(path, { "a.txt": "a" });
    await commitAll("First");
    await plainGit(path, "branch", "early");
    await write(path, { "b.txt": "b" });
    const tip = await commitAll("Second");
    await f.keep(path);
    expect(await parents()).toEqual([tip]);
  });

  test("work that does not descend from the start", async () => {
    await plainGit(path, "checkout", "--quiet", "--orphan", "fresh");
    await write(path, { "a.txt": "a" });
    const tip = await commitAll("From nothing");
    expect((await f.collect(path)).kind).toBe("not_descended");
    await f.keep(path);
    expect(await parents()).toEqual([tip]);
  });

  test("a second time, with what came since, and nothing of the first lost", async () => {
    await plainGit(path, "checkout", "--quiet", "-b", "side");
    await write(path, { "side.txt": "side" });
    const side = await commitAll("Side");
    await plainGit(path, "checkout", "--quiet", BRANCH);
    await f.keep(path);
    await write(path, { "later.txt": "later" });
    await f.keep(path);
    expect(await f.ask("show", `${WIP}:later.txt`)).toBe("later");
    expect(await parents()).toEqual([f.base, side]);
  });

  test("what collecting has taken already, where the gate then does not pass", async () => {
    await write(path, { "a.txt": "a" });
    const tip = await commitAll("Work");
    expect((await f.collect(path)).kind).toBe("collected");
    expect((await f.keep(path)).ref).toBe(WIP);
    expect(await parents()).toEqual([tip]);
  });

  test("what the run that passed left on other branches", async () => {
    await plainGit(path, "checkout", "--quiet", "-b", "side");
    await write(path, { "side.txt": "side" });
    const side = await commitAll("Side");
    await plainGit(path, "checkout", "--quiet", BRANCH);
    await write(path, { "a.txt": "a" });
    const result = await f.collect(path);
    expect(result).toMatchObject({ kind: "collected", wipRef: WIP, changedPaths: ["a.txt"] });
    expect(await parents()).toEqual([await f.mirror.resolve("refs/orchestrator/runs/1"), side]);
  });
});

describe("what is broken", () => {
  test("HEAD: the files are kept on top of the start", async () => {
    await write(path, { "a.txt": "a" });
    await writeFile(join(path, ".git/HEAD"), "garbage");
    const { ref, notes } = await f.keep(path);
    expect(ref).toBe(WIP);
    expect(notes).toEqual([expect.stringContaining(`on top of ${f.base}: HEAD names no commit`)]);
    expect(await parents()).toEqual([f.base]);
    expect(await f.ask("show", `${WIP}:a.txt`)).toBe("a");
  });

  test("a commit on HEAD that lacks a part: its files are kept all the same", async () => {
    await write(path, { "a.txt": "a", "b.txt": "b" });
    const tip = await commitAll("Work");
    const blob = await plainGit(path, "rev-parse", `${tip}:a.txt`);
    await rm(join(path, ".git/objects", blob.slice(0, 2), blob.slice(2)));
    await rm(join(path, "a.txt"));
    const { ref } = await f.keep(path);
    expect(ref).toBe(WIP);
    expect(await parents()).toEqual([f.base]);
    expect(await f.ask("show", `${WIP}:b.txt`)).toBe("b");
  });

  test("one branch: the others are kept, and it is named", async () => {
    const tips: string[] = [];
    for (const name of ["good", "bad", "worse"]) {
      await plainGit(path, "checkout", "--quiet", "-b", name, f.base);
      await write(path, { [`${name}.txt`]: name });
      tips.push(await commitAll(name));
    }
    const [good = "", bad = "", worse = ""] = tips;
    const blob = await plainGit(path, "rev-parse", `${bad}:bad.txt`);
    await rm(join(path, ".git/objects", blob.slice(0, 2), blob.slice(2)));
    const tree = await plainGit(path, "rev-parse", `${worse}^{tree}`);
    await plainGit(path, "checkout", "--quiet", BRANCH);
    await rm(join(path, ".git/objects", tree.slice(0, 2), tree.slice(2)));
    const { ref, notes } = await f.keep(path);
    expect(ref).toBe(WIP);
    expect(await parents()).toEqual([f.base, good]);
    expect(notes).toEqual([
      expect.stringContaining(`${bad} was not kept`),
      expect.stringContaining(`${worse} was not kept`),
    ]);
    expect(await f.ask("fsck", "--strict", "--no-dangling")).toBe("");
  });

  test("the workspace itself is gone", async () => {
    await rm(path, { recursive: true });
    expect(await f.keep(path)).toEqual({ ref: null, notes: ["the workspace is gone"] });
  });
});
