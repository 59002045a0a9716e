import { execFile } from "node:child_process";
import { lstat, mkdir, readdir, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ARTIFACT, exists, type Fixture, makeFixture, plainGit, script, write } from "./fixture.ts";

// An agent may do with its workspace whatever it likes. Whatever that is, nothing of it is run or followed by the services,
// each trap here would leave a canary, and honest work beside it is still taken.

let f: Fixture;
let path: string;
let canaries: string;
let trap: string;
let outside: string;

beforeEach(async () => {
  f = await makeFixture({ "old.txt": "old\n" });
  ({ path } = await f.prepare());
  canaries = join(f.dir, "canaries");
  await mkdir(canaries);
  trap = await script(join(f.dir, "trap"), `touch "${canaries}/$$"; exit 1`);
  outside = join(f.dir, "outside");
  await write(outside, { "secret.txt": "secret\n", "W-1/01-requirements.md": "---\nreview_status: APPROVED\n---\n" });
});
afterEach(() => f.remove());

const config = (...lines: string[]): string => `${lines.join("\n")}\n`;

/** Every setting by which a git directory can name a program, in one file. */
const hostileConfig = (worktree: string | null): string =>
  config(
    "[core]",
    "\trepositoryFormatVersion = 1",
    `\tfsmonitor = ${trap}`,
    `\tsshCommand = ${trap}`,
    `\thooksPath = ${canaries}/../hooks`,
    `\tgitProxy = ${trap}`,
    `\taskPass = ${trap}`,
    `\teditor = ${trap}`,
    `\tpager = ${trap}`,
    `\talternateRefsCommand = ${trap}`,
    ...(worktree === null ? [] : [`\tworktree = ${worktree}`]),
    '[filter "trap"]',
    `\tclean = ${trap}`,
    `\tsmudge = ${trap}`,
    `\tprocess = ${trap}`,
    "\trequired = true",
    '[diff "trap"]',
    `\ttextconv = ${trap}`,
    `\tcommand = ${trap}`,
    "[diff]",
    `\texternal = ${trap}`,
    '[merge "trap"]',
    `\tdriver = ${trap}`,
    "[credential]",
    `\thelper = ${trap}`,
    "[gpg]",
    `\tprogram = ${trap}`,
    "[commit]",
    "\tgpgSign = true",
    "[uploadpack]",
    `\tpackObjectsHook = ${trap}`,
    '[remote "origin"]',
    `\turl = ext::${trap}`,
    `\tuploadpack = ${trap}`,
    "\tpromisor = true",
    "\tpartialCloneFilter = blob:none",
    "[extensions]",
    "\tpartialClone = origin",
    "[include]",
    `\tpath = ${outside}/more.config`,
    "[alias]",
    `\tadd = !${trap}`,
  );

const HOOKS = [
  "pre-commit",
  "post-commit",
  "commit-msg",
  "post-checkout",
  "post-index-change",
  "reference-transaction",
  "pre-push",
];

/** Arms a git directory with everything that could run something. */
const arm = async (gitDir: string, worktree: string | null = outside): Promise<void> => {
  await write(gitDir, { config: hostileConfig(worktree), "config.worktree": hostileConfig(worktree) });
  await mkdir(join(f.dir, "hooks"), { recursive: true });
  await mkdir(join(gitDir, "hooks"), { recursive: true });
  for (const hook of HOOKS) {
    await script(join(gitDir, "hooks", hook), `exec ${trap}`);
    await script(join(f.dir, "hooks", hook), `exec ${trap}`);
  }
  await write(gitDir, { "info/attributes": "* filter=trap diff=trap merge=trap\n" });
};

const honest = { [ARTIFACT]: "---\nhonest: true\n---\n", "src/index.js": "honest work\n" };

/** Collecting, keeping and using the workspace again runs no trap; the honest work is taken. */
const expectHonestWork = async (): Promise<{ commit: string; notes: string[] }> => {
  const result = await f.collect(path);
  expect(result).toMatchObject({ kind: "collected" });
  if (result.kind !== "collected") throw new Error("unreachable");
  for (const [file, content] of Object.entries(honest)) {
    expect(`${await f.ask("show", `${result.commit}:${file}`)}\n`).toBe(content);
  }
  await expectHarmless();
  return result;
};

const expectHarmless = async (): Promise<void> => {
  await f.keep(path);
  await f.prepare();
  expect(await readdir(canaries)).toEqual([]);
  expect(await readFile(join(outside, "secret.txt"), "utf8")).toBe("secret\n");
  expect(await readFile(join(outside, "W-1/01-requirements.md"), "utf8")).toContain("APPROVED");
  expect(await f.ask("fsck", "--strict", "--no-dangling")).toBe("");
  const everything = await f.ask("log", "--all", "-p", "--format=%H");
  expect(everything).not.toContain("secret");
};

describe("programs named by the workspace's own git directory", () => {
  test("the traps do work: git on this directory runs them", async () => {
    await arm(join(path, ".git"));
    await plainGit(path, "-c", "core.worktree=.", "--work-tree", path, "status").catch(() => undefined);
    expect(await readdir(canaries)).not.toEqual([]);
  });

  test("configuration, hooks, filters and promisor remotes", async () => {
    await write(path, { ...honest, ".gitattributes": "* filter=trap diff=trap\n" });
    await plainGit(path, "add", "src");
    await plainGit(path, "commit", "--quiet", "-m", "Work");
    await arm(join(path, ".git"));
    // Its own ways of leading git elsewhere.
    await write(path, { ".git/commondir": outside, ".git/objects/info/http-alternates": `${outside}\n` });
    await expectHonestWork();
  });

  test("attributes in the branch that name a filter, committed", async () => {
    await write(path, { ...honest, ".gitattributes": "* filter=trap -text\n" });
    await plainGit(path, "add", "--all");
    await plainGit(path, "commit", "--quiet", "-m", "Work");
    await arm(join(path, ".git"));
    await expectHonestWork();
  });
});

describe("repositories inside the workspace", () => {
  const inner = async (folder: string): Promise<void> => {
    await plainGit(path, "init", "--quiet", folder);
    await write(path, { [`${folder}/inner.txt`]: "inner work\n" });
    await plainGit(join(path, folder), "add", "--all");
    await plainGit(join(path, folder), "commit", "--quiet", "-m", "Inner");
  };

  test("an untracked one, one without a commit, and one inside another", async () => {
    await write(path, honest);
    await inner("vendor/a");
    await inner("vendor/a/deeper");
    await plainGit(path, "init", "--quiet", "vendor/empty");
    await write(path, { "vendor/empty/kept.txt": "kept\n", "vendor/beside.txt": "beside\n" });
    for (const folder of ["vendor/a", "vendor/a/deeper", "vendor/empty"]) await arm(join(path, folder, ".git"));
    const { commit, notes } = await expectHonestWork();
    expect(await f.ask("ls-tree", "-r", "--name-only", commit, "vendor")).toBe("vendor/beside.txt");
    expect(notes.filter((note) => note.includes("a repository of its own")).length).toBe(2);
    // Their files are not lost: they are kept as plain files.
    const wip = "refs/orchestrator/wip/1";
    expect(await f.ask("ls-tree", "-r", "--name-only", wip, "vendor")).toBe(
      "vendor/a/deeper/inner.txt\nvendor/a/inner.txt\nvendor/beside.txt\nvendor/empty/kept.txt",
    );
  });

  test("one that the agent has added to its commit as a submodule", async () => {
    await inner("sub");
    await plainGit(path, "add", "sub");
    await plainGit(path, "commit", "--quiet", "-m", "Add a submodule");
    // Same size, another time: only its content, through the filter, can tell whether it has changed.
    await write(path, { ...honest, "sub/inner.txt": "INNER WORK\n" });
    await arm(join(path, "sub/.git"), null);
    const { commit } = await expectHonestWork();
    expect(await f.ask("ls-tree", commit, "sub", "--format=%(objectmode)")).toBe("160000");
  });

  test("the trap in a submodule does work: git on the workspace springs it", async () => {
    await inner("sub");
    await plainGit(path, "add", "sub");
    await write(path, { "sub/inner.txt": "INNER WORK\n" });
    await arm(join(path, "sub/.git"), null);
    await plainGit(path, "-c", "core.fsmonitor=false", "add", "--all").catch(() => undefined);
    expect(await readdir(canaries)).not.toEqual([]);
  });

  test("a submodule of the branch, dirty, its git directory elsewhere", async () => {
    const library = join(f.dir, "library");
    await plainGit(f.dir, "init", "--quiet", library);
    await write(library, { "lib.txt": "lib" });
    await plainGit(library, "add", "--all");
    await plainGit(library, "commit", "--quiet", "-m", "Library");
    await plainGit(f.clone, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", library, "lib");
    const start = await f.commitAtRemote("main", {});
    await f.mirror.fetch();
    await f.prepare({ start });
    await plainGit(path, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init");
    await write(path, { ...honest, "lib/lib.txt": "dirty" });
    await arm(join(path, ".git/modules/lib"));
    await rename(join(path, ".git/modules/lib"), join(f.dir, "moved"));
    await writeFile(join(path, "lib/.git"), `gitdir: ${join(f.dir, "moved")}\n`);
    const result = await f.collect(path, { start });
    expect(result).toMatchObject({ kind: "collected", changedPaths: expect.arrayContaining(["src/index.js"]) });
    await f.prepare({ start });
    await expectHarmless();
  });

  test("a git directory put into a folder of tracked files", async () => {
    await plainGit(path, "init", "--quiet", "src");
    await arm(join(path, "src/.git"));
    await write(path, { ...honest, "src/new.js": "new\n" });
    const { commit } = await expectHonestWork();
    expect(await f.ask("show", `${commit}:src/new.js`)).toBe("new");
  });

  test("one around the artifact", async () => {
    await inner("docs/work-items/W-1");
    await arm(join(path, "docs/work-items/W-1/.git"));
    await write(path, honest);
    await expectHonestWork();
  });

  test("more of them than anybody would make", async () => {
    await write(path, honest);
    await promisify(execFile)("/bin/sh", [
      "-c",
      `cd "$1" && git init -q --template= one && for d in $(seq -w 1 18); do mkdir -p many/$d && cp -r one/.git many/$d && touch many/$d/x; done`,
      "sh",
      path,
    ]);
    expect((await f.keep(path)).notes).toContainEqual(expect.stringContaining("beyond the first 16"));
    await expectHonestWork();
  });
});

describe("the git directory itself", () => {
  test("replaced by a file that leads elsewhere", async () => {
    await write(path, honest);
    const elsewhere = join(f.dir, "elsewhere");
    await rename(join(path, ".git"), elsewhere);
    await arm(elsewhere);
    await writeFile(join(path, ".git"), `gitdir: ${elsewhere}\n`);
    const { commit, notes } = await expectHonestWork();
    expect(notes).toContainEqual(expect.stringContaining(".git has become a file"));
    expect(await f.ask("rev-parse", `${commit}^`)).toBe(f.base);
  });

  test("replaced by a link, or gone", async () => {
    await write(path, honest);
    const elsewhere = join(f.dir, "elsewhere");
    await rename(join(path, ".git"), elsewhere);
    await arm(elsewhere);
    await symlink(elsewhere, join(path, ".git"));
    const { notes } = await expectHonestWork();
    expect(notes).toContainEqual(expect.stringContaining(".git has become a link"));
    await write(path, honest);
    await rm(join(path, ".git"), { recursive: true });
    expect(await f.collect(path, { runId: 2 })).toMatchObject({ kind: "collected" });
  });

  test("alternates, linked objects and linked packs lead nowhere", async () => {
    // A repository outside, whose objects must not get into the branch although HEAD names its commit.
    await plainGit(outside, "init", "--quiet");
    await plainGit(outside, "fetch", "--quiet", f.origin, "main");
    await plainGit(outside, "reset", "--quiet", "--soft", "FETCH_HEAD");
    await plainGit(outside, "add", "--all");
    await plainGit(outside, "commit", "--quiet", "-m", "Secret");
    const secret = await plainGit(outside, "rev-parse", "HEAD");
    const steal = {
      alternates: () => write(path, { ".git/objects/info/alternates": `${outside}/.git/objects\n` }),
      "objects is a link": async () => {
        await rm(join(path, ".git/objects"), { recursive: true });
        await symlink(join(outside, ".git/objects"), join(path, ".git/objects"));
      },
      "a folder of objects is a link": async () => {
        for (const name of await readdir(join(outside, ".git/objects"))) {
          await rm(join(path, ".git/objects", name), { recursive: true, force: true });
          await symlink(join(outside, ".git/objects", name), join(path, ".git/objects", name));
        }
      },
      "objects and packs are links": async () => {
        await plainGit(outside, "repack", "-adq");
        for (const name of await readdir(join(outside, ".git/objects/pack"))) {
          await symlink(join(outside, ".git/objects/pack", name), join(path, ".git/objects/pack", name));
        }
      },
    };
    for (const [how, make] of Object.entries(steal)) {
      await f.prepare();
      await write(path, honest);
      await make();
      await writeFile(join(path, ".git/HEAD"), `${secret}\n`);
      const result = await f.collect(path);
      expect([how, result.kind]).toEqual([how, "unreadable"]);
      // What is honest about it, the files, is kept.
      expect([how, (await f.keep(path)).ref]).toEqual([how, "refs/orchestrator/wip/1"]);
      expect(await f.ask("show", "refs/orchestrator/wip/1:src/index.js")).toBe("honest work");
      await writeFile(join(path, ".git/HEAD"), `${f.base}\n`);
      await expectHonestWork();
    }
  });

  test("refs and HEAD that are links, folders, pipes, endless or hostile names", async () => {
    await write(path, honest);
    const git = join(path, ".git");
    await write(git, {
      "refs/heads/../../../escape": "x",
      "refs/heads/-option": `${f.base}\n`,
      "refs/heads/$(touch canary)": `${f.base}\n`,
      "refs/heads/with blank and ü": `${f.base}\n`,
      "refs/heads/--upload-pack=x": `${f.base}\n`,
      "refs/heads/garbage": Buffer.alloc(3000, 0xff),
      "refs/heads/loop": "ref: refs/heads/loop\n",
      "refs/heads/missing": "0123456789012345678901234567890123456789\n",
      "refs/heads/long": "0".repeat(100_000),
    });
    await symlink(join(outside, "secret.txt"), join(git, "refs/heads/link"));
    await symlink("/proc/self/environ", join(git, "refs/heads/environ"));
    await symlink("..", join(git, "refs/heads/up"));
    await promisify(execFile)("mkfifo", [join(git, "refs/heads/pipe"), join(git, "packed-refs.x")]);
    await rm(join(git, "packed-refs"));
    await rename(join(git, "packed-refs.x"), join(git, "packed-refs"));
    await writeFile(join(git, "HEAD"), `${f.base}\n`);
    await expectHonestWork();
    for (const head of ["link", "pipe", "folder"]) {
      await write(path, honest);
      await rm(join(git, "HEAD"), { recursive: true });
      if (head === "link") await symlink(join(outside, "secret.txt"), join(git, "HEAD"));
      if (head === "pipe") await promisify(execFile)("mkfifo", [join(git, "HEAD")]);
      if (head === "folder") await mkdir(join(git, "HEAD"));
      expect(await f.collect(path, { runId: 3 })).toEqual({
        kind: "unreadable",
        reason: expect.stringContaining("HEAD is a"),
      });
      await expectHarmless();
    }
  });

  test("a packed-refs of gigantic size is not read; one of great size is", async () => {
    await write(path, honest);
    await plainGit(path, "add", "--all");
    await plainGit(path, "commit", "--quiet", "-m", "Work");
    const tip = await plainGit(path, "rev-parse", "HEAD");
    const packed = join(path, ".git/packed-refs");
    const lines = Array.from({ length: 60_000 }, (_, n) => `${f.base} refs/tags/t${n}\n`).join("");
    await writeFile(packed, `# pack-refs with: peeled fully-peeled sorted \n${lines}`);
    const read = await f.collect(path);
    expect(read).toMatchObject({ kind: "collected", notes: [] });
    expect(await f.ask("rev-parse", "refs/orchestrator/runs/1^")).toBe(tip);
    await promisify(execFile)("truncate", ["-s", "3G", packed]);
    const { notes } = await expectHonestWork();
    expect(notes).toContainEqual(expect.stringContaining("packed-refs was not read"));
  });
});

describe("objects that git itself would refuse", () => {
  test("a submodule whose address is an option: not taken into a branch, but kept", async () => {
    await write(path, {
      ...honest,
      ".gitmodules": `[submodule "x"]\n\tpath = x\n\turl = --upload-pack=${trap}\n`,
    });
    expect(await f.collect(path)).toEqual({ kind: "unreadable", reason: expect.stringContaining("gitmodules") });
    expect((await f.keep(path)).ref).toBe("refs/orchestrator/wip/1");
    expect(await f.ask("show", "refs/orchestrator/wip/1:src/index.js")).toBe("honest work");
    await f.prepare({ refs: ["refs/orchestrator/wip/1"] });
    expect(await readdir(canaries)).toEqual([]);
  });

  test("a tree that would write into a git directory or out of the workspace", async () => {
    const blob = await plainGit(path, "hash-object", "-w", "README.md");
    for (const name of [".git", "..", ".GIT"]) {
      const line = Buffer.concat([Buffer.from(`100644 ${name}\0`), Buffer.from(blob, "hex")]);
      await writeFile(join(f.dir, "tree"), line);
      const tree = await plainGit(path, "hash-object", "-t", "tree", "-w", "--literally", join(f.dir, "tree"));
      const commit = await plainGit(path, "commit-tree", tree, "-p", f.base, "-m", "Out");
      await write(path, { ...honest, ".git/HEAD": `${commit}\n` });
      expect([name, (await f.collect(path)).kind]).toEqual([name, "unreadable"]);
      expect([name, (await f.keep(path)).ref]).toEqual([name, "refs/orchestrator/wip/1"]);
      expect(await f.ask("show", "refs/orchestrator/wip/1:src/index.js")).toBe("honest work");
    }
  });
});

describe("links in the working directory", () => {
  test("the folder of the artifact leads outside: nothing behind it is taken", async () => {
    await rm(join(path, "docs"), { recursive: true });
    await mkdir(join(path, "docs"));
    await symlink(outside, join(path, "docs/work-items"));
    await write(path, { "src/index.js": "honest work\n" });
    const result = await f.collect(path);
    expect(result).toMatchObject({
      kind: "collected",
      changedPaths: ["docs/work-items", "src/index.js"],
      notes: [expect.stringContaining("docs/work-items is not a directory")],
    });
    await expectHarmless();
    expect((await lstat(join(path, "docs/work-items"))).isDirectory()).toBe(true);
  });

  test("ignore and attribute files that are links are not read", async () => {
    await write(outside, { ignore: "src/\n" });
    await symlink(join(outside, "ignore"), join(path, ".gitignore"));
    await symlink(join(outside, "ignore"), join(path, ".gitattributes"));
    await write(path, { ...honest, "src/new.js": "new\n" });
    const { commit } = await expectHonestWork();
    expect(await f.ask("show", `${commit}:src/new.js`)).toBe("new");
  });

  test("a tracked folder that became a link to one with the same names", async () => {
    await write(outside, { "index.js": "secret\n" });
    await rm(join(path, "src"), { recursive: true });
    await symlink(outside, join(path, "src"));
    await write(path, { [ARTIFACT]: "x" });
    const result = await f.collect(path);
    expect(result).toMatchObject({ kind: "collected", changedPaths: [ARTIFACT, "src", "src/index.js"] });
    expect(await f.ask("ls-tree", "refs/orchestrator/runs/1", "src", "--format=%(objectmode)")).toBe("120000");
    await expectHarmless();
    expect(await exists(join(path, "src/index.js"))).toBe(true);
  });
});
