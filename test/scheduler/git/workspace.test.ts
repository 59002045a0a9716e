import {
  chmod,
  lstat,
  mkdir,
  readFile,
  readlink,
  rename,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { removeWorkspace, workspacePath } from "../../../services/scheduler/git/workspace.ts";
import { makingMarker, savedIndex } from "../../../services/scheduler/git/workspace_files.ts";
import { BRANCH, exists, type Fixture, makeFixture, plainGit, write } from "./fixture.ts";

let f: Fixture;
beforeEach(async () => {
  f = await makeFixture({ ".gitignore": "node_modules/\n*.cache\n", "src/deep/a.txt": "a\n", "run.sh": "#!/bin/sh\n" });
});
afterEach(() => f.remove());

const status = (path: string): Promise<string> => plainGit(path, "status", "--porcelain", "--ignored");

describe("a fresh workspace", () => {
  test("has the branch checked out at the start, clean, with the remote's branches to compare with", async () => {
    await f.commitAtRemote("main", { "later.txt": "x" });
    await f.mirror.fetch();
    const { path, notes } = await f.prepare();
    expect(notes).toEqual([]);
    expect(await plainGit(path, "symbolic-ref", "HEAD")).toBe(`refs/heads/${BRANCH}`);
    expect(await plainGit(path, "rev-parse", "HEAD")).toBe(f.base);
    expect(await status(path)).toBe("");
    expect(await readFile(join(path, "src/deep/a.txt"), "utf8")).toBe("a\n");
    expect(await plainGit(path, "diff", "--name-only", "HEAD", "origin/main")).toBe("later.txt");
    expect(await plainGit(path, "rev-parse", "origin/HEAD")).toBe(await plainGit(path, "rev-parse", "origin/main"));
    expect(await plainGit(path, "fsck", "--strict")).toBe("");
  });

  test("has no remote, no hook and no share in the mirror's objects", async () => {
    const { path } = await f.prepare();
    expect(await plainGit(path, "remote")).toBe("");
    await expect(plainGit(path, "push", "origin", "HEAD")).rejects.toThrow("origin");
    expect(await exists(join(path, ".git/hooks"))).toBe(false);
    expect(await exists(join(path, ".git/objects/info/alternates"))).toBe(false);
    // Nothing that is done to its objects shows in the mirror.
    await plainGit(path, "gc", "--quiet", "--prune=now");
    await rm(join(path, ".git/objects"), { recursive: true });
    expect(await f.ask("fsck", "--strict")).toBe("");
  });

  test("lets an agent commit that has no identity of its own", async () => {
    const { path } = await f.prepare();
    await write(path, { "new.txt": "x" });
    await plainGit(path, "add", "new.txt");
    await plainGit(path, "commit", "--quiet", "-m", "Work");
    expect(await plainGit(path, "config", "user.email")).toBe("agent@localhost");
  });

  test("keeps modes and links as the commit has them", async () => {
    await chmod(join(f.clone, "run.sh"), 0o755);
    await symlink("src/index.js", join(f.clone, "link"));
    const start = await f.commitAtRemote("main", {});
    await f.mirror.fetch();
    const { path } = await f.prepare({ start });
    expect((await stat(join(path, "run.sh"))).mode & 0o111).toBe(0o111);
    expect(await readlink(join(path, "link"))).toBe("src/index.js");
  });

  test("shows the earlier work that it is told to", async () => {
    const ref = "refs/orchestrator/wip/7";
    await f.mirror.updateRef(ref, f.base, null);
    await f.mirror.updateRef("refs/orchestrator/wip/8", f.base, null);
    const { path } = await f.prepare({ refs: [ref] });
    const refs = await plainGit(path, "for-each-ref", "--format=%(refname)");
    expect(refs.split("\n").sort()).toEqual([
      `refs/heads/${BRANCH}`,
      ref,
      "refs/remotes/origin/HEAD",
      "refs/remotes/origin/main",
    ]);
  });

  test("a start that the mirror does not have is an error, and what is left of it is made anew", async () => {
    await expect(f.prepare({ start: "0123456789012345678901234567890123456789" })).rejects.toMatchObject({
      code: "git",
    });
    const path = workspacePath(join(f.dir, "workspaces"), "W-1");
    expect(await exists(makingMarker(path))).toBe(true);
    await write(path, { "left.cache": "half" });
    await f.prepare();
    expect(await exists(join(path, "left.cache"))).toBe(false);
    expect(await exists(makingMarker(path))).toBe(false);
  });

  test("an abort leaves by the signal's reason", async () => {
    const reason = new Error("enough");
    await expect(f.prepare({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  });

  test("a name that leads elsewhere is refused", async () => {
    for (const workItemId of ["../x", "a/b", "..", ".hidden"]) {
      await expect(f.prepare({ workItemId })).rejects.toMatchObject({ code: "workspace" });
    }
  });
});

describe("a workspace used again", () => {
  test("is at the new start; what the repository ignores stays, everything else goes", async () => {
    const { path } = await f.prepare();
    await write(path, {
      "node_modules/x/index.js": "cached",
      "build.cache": "cached",
      "untracked.txt": "x",
      "src/index.js": "changed",
      "src/deep/b/c.txt": "x",
    });
    await rm(join(path, "README.md"));
    await rm(join(path, "run.sh"));
    await mkdir(join(path, "run.sh"));
    const start = await f.commitAtRemote("main", { "later.txt": "x" });
    await f.mirror.fetch();
    await f.prepare({ start });
    expect(await plainGit(path, "rev-parse", "HEAD")).toBe(start);
    expect((await status(path)).split("\n").sort()).toEqual(["!! build.cache", "!! node_modules/"]);
    expect(await readFile(join(path, "node_modules/x/index.js"), "utf8")).toBe("cached");
    expect(await readFile(join(path, "src/index.js"), "utf8")).toBe("export const answer = 41;\n");
  });

  test("files that have not changed are not written again", async () => {
    const { path } = await f.prepare();
    const before = await lstat(join(path, "src/index.js"));
    await write(path, { "README.md": "changed" });
    await f.prepare();
    expect((await lstat(join(path, "src/index.js"))).ctimeMs).toBe(before.ctimeMs);
    expect(await readFile(join(path, "README.md"), "utf8")).toBe("# Shop\n");
  });

  test("a change that keeps size and time is seen all the same", async () => {
    const { path } = await f.prepare();
    const file = join(path, "src/index.js");
    const { atime, mtime } = await stat(file);
    await writeFile(file, "export const answer = 42;\n");
    await utimes(file, atime, mtime);
    await f.prepare();
    expect(await readFile(file, "utf8")).toBe("export const answer = 41;\n");
  });

  test("also where the saved index is missing, broken or locked", async () => {
    const { path } = await f.prepare();
    for (const breakIt of [
      () => rm(savedIndex(path)),
      () => writeFile(savedIndex(path), "garbage"),
      () => writeFile(`${savedIndex(path)}.lock`, ""),
    ]) {
      await write(path, { "src/index.js": "changed", "untracked.txt": "x", "build.cache": "cached" });
      await breakIt();
      await f.prepare();
      expect(await plainGit(path, "status", "--porcelain")).toBe("");
    }
  });

  test("nothing of the old git directory is used, whatever it has become", async () => {
    const { path } = await f.prepare();
    const elsewhere = join(f.dir, "elsewhere");
    const become = {
      hostile: async () => {
        await write(path, { ".git/config": "[core]\n\tfsmonitor = /bin/false\n", ".git/hooks/post-checkout": "x" });
        await symlink(elsewhere, join(path, ".git/objects/link"));
      },
      "a file": async () => {
        await rename(join(path, ".git"), elsewhere);
        await writeFile(join(path, ".git"), `gitdir: ${elsewhere}\n`);
      },
      "a link": async () => {
        await rm(join(path, ".git"), { recursive: true });
        await symlink(elsewhere, join(path, ".git"));
      },
      gone: () => rm(join(path, ".git"), { recursive: true }),
    };
    for (const [what, change] of Object.entries(become)) {
      await change();
      await f.prepare();
      expect([what, (await lstat(join(path, ".git"))).isDirectory()]).toEqual([what, true]);
      expect(await status(path)).toBe("");
      expect(await exists(join(path, ".git/hooks"))).toBe(false);
    }
    // It was a link's target and stays as it was.
    expect(await exists(join(elsewhere, "HEAD"))).toBe(true);
  });

  test("a link in the way of a tracked file is replaced, and its target is not written", async () => {
    const { path } = await f.prepare();
    const outside = join(f.dir, "outside");
    await write(outside, { "index.js": "precious", "deep/a.txt": "precious" });
    await rm(join(path, "src"), { recursive: true });
    await symlink(outside, join(path, "src"));
    await symlink(join(f.dir, "nowhere"), join(path, "untracked-link"));
    await f.prepare();
    expect((await lstat(join(path, "src"))).isDirectory()).toBe(true);
    expect(await readFile(join(outside, "index.js"), "utf8")).toBe("precious");
    expect(await readFile(join(outside, "deep/a.txt"), "utf8")).toBe("precious");
    expect(await status(path)).toBe("");
  });

  test("a workspace that has itself become a link is made anew, and the target is left alone", async () => {
    const { path } = await f.prepare();
    const outside = join(f.dir, "outside");
    await write(outside, { "precious.txt": "precious" });
    await rm(path, { recursive: true });
    await symlink(outside, path);
    await f.prepare();
    expect((await lstat(path)).isDirectory()).toBe(true);
    expect(await readFile(join(outside, "precious.txt"), "utf8")).toBe("precious");
    expect(await exists(join(outside, ".git"))).toBe(false);
  });

  test("repositories that an earlier run made inside go; folders without write permission do not stop it", async () => {
    const { path } = await f.prepare();
    await plainGit(path, "init", "--quiet", "vendor/inner");
    await write(path, { "vendor/inner/x.txt": "x", "locked/y.txt": "y" });
    await chmod(join(path, "locked"), 0o555);
    await f.prepare();
    expect(await status(path)).toBe("");
    expect(await exists(join(path, "vendor"))).toBe(false);
  });

  test("the folder of a submodule is emptied: its git directory is gone", async () => {
    const library = join(f.dir, "library");
    await plainGit(f.dir, "init", "--quiet", library);
    await write(library, { "lib.txt": "lib" });
    await plainGit(library, "add", "--all");
    await plainGit(library, "commit", "--quiet", "-m", "Library");
    await plainGit(f.clone, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", library, "lib");
    const start = await f.commitAtRemote("main", {});
    await f.mirror.fetch();
    const { path } = await f.prepare({ start });
    const update = (): Promise<string> =>
      plainGit(path, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init");
    await update();
    await f.prepare({ start });
    expect(await status(path)).toBe("");
    await update();
    expect(await readFile(join(path, "lib/lib.txt"), "utf8")).toBe("lib");
  });
});

test("removeWorkspace leaves nothing, and is content where there is nothing", async () => {
  const { path } = await f.prepare();
  const workspaces = join(f.dir, "workspaces");
  await removeWorkspace(workspaces, "W-1");
  expect(await exists(path)).toBe(false);
  expect(await exists(savedIndex(path))).toBe(false);
  await removeWorkspace(workspaces, "W-1");
});
