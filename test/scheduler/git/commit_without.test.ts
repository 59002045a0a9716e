import { lstat, mkdir, readFile, symlink } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ARTIFACT, BRANCH, exists, type Fixture, makeFixture, plainGit, write } from "./fixture.ts";

let f: Fixture;
beforeEach(async () => {
  f = await makeFixture();
});
afterEach(() => f.remove());

describe("the artifact of an earlier round", () => {
  test("is taken out of the files, and its folder is there", async () => {
    const start = await f.commitAtRemote("main", { [ARTIFACT]: "stale", "docs/work-items/W-1/02-other.md": "stays" });
    await f.mirror.fetch();
    const { path } = await f.prepare({ start });
    expect(await exists(join(path, ARTIFACT))).toBe(false);
    expect(await exists(join(path, "docs/work-items/W-1/02-other.md"))).toBe(true);
    expect(await plainGit(path, "status", "--porcelain")).toBe("");
  });

  test.each([
    ["checkout", "--", "."],
    ["restore", "."],
    ["restore", "--staged", "--worktree", "."],
    ["stash", "--include-untracked"],
    ["reset", "--hard"],
    ["checkout", "--force", BRANCH],
  ])("is not brought back by what tidies up a working directory: git %s %s %s", async (...args) => {
    const start = await f.commitAtRemote("main", { [ARTIFACT]: "stale" });
    await f.mirror.fetch();
    const { path } = await f.prepare({ start });
    await write(path, { "README.md": "changed", "docs/work-items/W-1/notes.md": "new" });
    await plainGit(path, ...args);
    expect(await exists(join(path, ARTIFACT))).toBe(false);
    // It is where it belongs.
    expect(await plainGit(path, "show", `HEAD~1:${ARTIFACT}`)).toBe("stale");
    expect(await plainGit(path, "rev-parse", "HEAD~1")).toBe(start);
  });

  test("is taken out of the next round again, and of no other stage's", async () => {
    const start = await f.commitAtRemote("main", { [ARTIFACT]: "stale", "docs/work-items/W-1/02-other.md": "stays" });
    await f.mirror.fetch();
    const { path } = await f.prepare({ start });
    const first = await plainGit(path, "rev-parse", "HEAD");
    await f.prepare({ start });
    expect(await plainGit(path, "rev-parse", "HEAD")).toBe(first);
    await f.prepare({ start, staleArtifact: "docs/work-items/W-1/03-third.md" });
    expect(await plainGit(path, "rev-parse", "HEAD")).toBe(start);
    expect(await readFile(join(path, ARTIFACT), "utf8")).toBe("stale");
  });

  test("has any name", async () => {
    const name = 'docs/work-items/W-1/a "quoted" \\ na\u00efve *.md';
    const start = await f.commitAtRemote("main", { [name]: "stale", "docs/work-items/W-1/a.md": "stays" });
    await f.mirror.fetch();
    const { path } = await f.prepare({ start, staleArtifact: name });
    expect(await exists(join(path, name))).toBe(false);
    expect(await plainGit(path, "status", "--porcelain")).toBe("");
    expect(await plainGit(path, "diff", "--name-only", "-z", start, "HEAD")).toBe(`${name}\0`);
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
