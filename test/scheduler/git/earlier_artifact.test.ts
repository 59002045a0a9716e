import { lstat, mkdir, readFile, symlink } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ARTIFACT, BRANCH, exists, type Fixture, makeFixture, plainGit, write } from "./fixture.ts";

const WIP = "refs/orchestrator/wip/1";

let f: Fixture;
beforeEach(async () => {
  f = await makeFixture();
});
afterEach(() => f.remove());

const STALE = "---\nwork_item: W-1\nstage: analysis\n---\nStale.\n";

describe("the artifact of an earlier round", () => {
  test("is taken out of the files, and its folder is there; HEAD is the start, which has it", async () => {
    const start = await f.commitAtRemote("main", { [ARTIFACT]: STALE, "docs/work-items/W-1/02-other.md": "stays" });
    await f.mirror.fetch();
    const { path } = await f.prepare({ start });
    expect(await exists(join(path, ARTIFACT))).toBe(false);
    expect(await exists(join(path, "docs/work-items/W-1/02-other.md"))).toBe(true);
    expect(await plainGit(path, "status", "--porcelain")).toBe("");
    expect(await plainGit(path, "rev-parse", "HEAD")).toBe(start);
    expect(await plainGit(path, "--no-replace-objects", "show", `HEAD:${ARTIFACT}`)).toBe(STALE.trimEnd());
  });

  test.each([
    [["checkout", "--", "."]],
    [["restore", "."]],
    [["restore", "--source=HEAD", "--staged", "--worktree", "."]],
    [["stash", "--include-untracked"]],
    [["reset", "--hard"]],
    [["checkout", "--force", BRANCH]],
    [["checkout", "--force", "--detach", "origin/main"]],
    [["gc", "--quiet"]],
  ])("is not brought back by what tidies up a working directory: git %j", async (args) => {
    const start = await f.commitAtRemote("main", { [ARTIFACT]: STALE });
    await f.mirror.fetch();
    const { path } = await f.prepare({ start });
    await write(path, { "README.md": "changed", "docs/work-items/W-1/notes.md": "new" });
    await plainGit(path, ...args);
    expect(await exists(join(path, ARTIFACT))).toBe(false);
    expect(await plainGit(path, "rev-parse", "HEAD")).toBe(start);
    // Neither by what is collected.
    expect(await f.collect(path, { start })).toMatchObject({
      kind: "collected",
      wipRef: args[0] === "stash" ? WIP : null,
    });
    expect(await f.ask("ls-tree", "-r", "--name-only", "refs/orchestrator/runs/1")).not.toContain(ARTIFACT);
  });

  test.each([
    [[["checkout", "--", "."]]],
    [[["reset", "--hard"]]],
    [
      [
        ["stash", "--include-untracked"],
        ["stash", "pop"],
      ],
    ],
  ])("in whose place a new one was written leaves that in peace: git %j", async (commands) => {
    const start = await f.commitAtRemote("main", { [ARTIFACT]: STALE });
    await f.mirror.fetch();
    const { path } = await f.prepare({ start });
    await write(path, { "README.md": "changed", [ARTIFACT]: "new" });
    for (const args of commands) await plainGit(path, ...args);
    expect(await readFile(join(path, ARTIFACT), "utf8")).toBe("new");
  });

  test("does not keep an agent from committing, leaving its branch, coming back and rebasing", async () => {
    const start = await f.commitAtRemote("work/W-1", { [ARTIFACT]: STALE });
    await f.commitAtRemote("main", { "other.txt": "theirs" });
    await f.mirror.fetch();
    const { path } = await f.prepare({ start });
    await write(path, { [ARTIFACT]: "new", "README.md": "changed" });
    await plainGit(path, "add", "--all");
    await plainGit(path, "commit", "--quiet", "-m", "Mine");
    for (const branch of ["origin/main", BRANCH, "origin/main", BRANCH])
      await plainGit(path, "checkout", "--quiet", branch);
    expect(await readFile(join(path, ARTIFACT), "utf8")).toBe("new");
    expect(await plainGit(path, "rev-parse", "HEAD~1")).toBe(start);
    await plainGit(path, "rebase", "--quiet", "--onto", start, start);
    expect(await f.collect(path, { start })).toMatchObject({ kind: "collected", notes: [], wipRef: null });
    expect(await f.ask("show", `refs/orchestrator/runs/1:${ARTIFACT}`)).toBe("new");
    expect((await f.ask("for-each-ref", "--format=%(refname)")).split("\n")).not.toContainEqual(
      expect.stringContaining("replace"),
    );
  });

  test("does not keep git from merging", async () => {
    const start = await f.commitAtRemote("work/W-1", { [ARTIFACT]: STALE });
    const other = await f.commitAtRemote("main", { "other.txt": "theirs" });
    await f.mirror.fetch();
    const { path } = await f.prepare({ start });
    await write(path, { [ARTIFACT]: "new" });
    await plainGit(path, "merge", "--quiet", "-m", "Merge", "origin/main");
    await plainGit(path, "merge-base", "--is-ancestor", other, "HEAD");
    expect(await readFile(join(path, ARTIFACT), "utf8")).toBe("new");
  });

  test("is taken out of the next round again, and of no other stage's", async () => {
    const start = await f.commitAtRemote("main", { [ARTIFACT]: STALE, "docs/work-items/W-1/02-other.md": "stays" });
    await f.mirror.fetch();
    await f.prepare({ start });
    const { path } = await f.prepare({ start });
    expect(await exists(join(path, ARTIFACT))).toBe(false);
    await f.prepare({ start, staleArtifact: "docs/work-items/W-1/03-third.md" });
    expect(await readFile(join(path, ARTIFACT), "utf8")).toBe(STALE);
    expect(await plainGit(path, "status", "--porcelain")).toBe("");
  });

  test("that another file is a copy of is taken out alone", async () => {
    const start = await f.commitAtRemote("main", { [ARTIFACT]: STALE, "docs/copy.md": STALE });
    await f.mirror.fetch();
    const { path } = await f.prepare({ start });
    await write(path, { "docs/copy.md": "changed" });
    await plainGit(path, "checkout", "--", ".");
    expect(await readFile(join(path, "docs/copy.md"), "utf8")).toBe(STALE);
    expect(await exists(join(path, ARTIFACT))).toBe(false);
  });

  test("has any name", async () => {
    const name = 'docs/work-items/W-1/a "quoted" \\ na\u00efve *.md';
    const start = await f.commitAtRemote("main", { [name]: STALE, "docs/work-items/W-1/a.md": "stays" });
    await f.mirror.fetch();
    const { path } = await f.prepare({ start, staleArtifact: name });
    expect(await exists(join(path, name))).toBe(false);
    await plainGit(path, "reset", "--hard");
    expect(await exists(join(path, name))).toBe(false);
    expect(await exists(join(path, "docs/work-items/W-1/a.md"))).toBe(true);
  });

  test("is taken out although it is ignored, also where it has become a folder", async () => {
    const { path } = await f.prepare();
    await write(path, { ".git/info/exclude": "docs\n", [`${ARTIFACT}/inside`]: "x" });
    await f.prepare();
    expect(await exists(join(path, ARTIFACT))).toBe(false);
    expect((await lstat(join(path, "docs/work-items/W-1"))).isDirectory()).toBe(true);
  });

  test("is not looked for behind a link that the branch holds", async () => {
    const outside = join(f.dir, "outside");
    await write(outside, { "W-1/01-requirements.md": "precious" });
    await mkdir(join(f.clone, "docs"));
    await symlink(outside, join(f.clone, "docs/work-items"));
    const start = await f.commitAtRemote("main", {});
    await f.mirror.fetch();
    const { notes } = await f.prepare({ start });
    expect(notes).toEqual([expect.stringContaining("docs/work-items is not a directory")]);
    expect(await readFile(join(outside, "W-1/01-requirements.md"), "utf8")).toBe("precious");
  });
});
