import { execFile } from "node:child_process";
import { chmod, lstat, mkdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { readCommittedFile } from "@orchestrator/shared/git/read_committed_file.ts";
import { createGit, type Git } from "@orchestrator/shared/git/run_git.ts";
import { supervise } from "@orchestrator/shared/git/supervise.ts";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Collected } from "../../../services/scheduler/git/collect.ts";
import { ARTIFACT, BRANCH, exists, type Fixture, makeFixture, plainGit, write } from "./fixture.ts";

let f: Fixture;
let path: string;
beforeEach(async () => {
  f = await makeFixture({ ".gitignore": "node_modules/\n*.log\n", "old.txt": "old\n", "run.sh": "#!/bin/sh\n" });
  ({ path } = await f.prepare());
});
afterEach(() => f.remove());

const collected = (result: Collected): Extract<Collected, { kind: "collected" }> => {
  expect(result).toMatchObject({ kind: "collected" });
  return result as Extract<Collected, { kind: "collected" }>;
};
const commitAll = async (message: string): Promise<string> => {
  await plainGit(path, "add", "--all");
  await plainGit(path, "commit", "--quiet", "-m", message);
  return plainGit(path, "rev-parse", "HEAD");
};
const show = (commit: string, file: string): Promise<string> => f.ask("show", `${commit}:${file}`);
const names = async (commit: string): Promise<string[]> =>
  (await f.ask("-c", "core.quotePath=false", "ls-tree", "-r", "--name-only", commit)).split("\n");

describe("what is taken", () => {
  test("uncommitted work becomes one commit by the orchestrator, kept under the run's ref", async () => {
    await write(path, { [ARTIFACT]: "---\n---\n", "src/index.js": "42\n", "new/file.txt": "new\n" });
    await rm(join(path, "old.txt"));
    const { commit, changedPaths, notes, wipRef } = collected(await f.collect(path));
    expect(changedPaths.sort()).toEqual([ARTIFACT, "new/file.txt", "old.txt", "src/index.js"]);
    expect(notes).toEqual([]);
    expect(wipRef).toBe(null);
    expect(await f.ask("rev-parse", `${commit}^@`)).toBe(f.base);
    expect(await f.mirror.resolve("refs/orchestrator/runs/1")).toBe(commit);
    expect(
      await f.ask("log", "-1", "--format=%an <%ae>|%cn <%ce>|%s|%(trailers:key=Orchestrator-Run,valueonly)", commit),
    ).toBe("Orchestrator <orchestrator@localhost>|Orchestrator <orchestrator@localhost>|analysis: W-1|1\n".trimEnd());
    expect(await show(commit, "new/file.txt")).toBe("new");
    expect(await f.ask("fsck", "--strict")).toBe("");
    // No branch has moved.
    expect(await f.ask("for-each-ref", "--format=%(refname)", "refs/heads")).toBe("");
  });

  test("commits are kept as they are, with one of the orchestrator's own on top, even an empty one", async () => {
    await write(path, { [ARTIFACT]: "---\n---\n", "a.txt": "a" });
    await commitAll("First");
    await write(path, { "b.txt": "b" });
    const second = await commitAll("Second");
    const { commit, changedPaths } = collected(await f.collect(path));
    expect(await f.ask("log", "--format=%an: %s", `${f.base}..${commit}`)).toBe(
      "Orchestrator: analysis: W-1\nSomebody: Second\nSomebody: First",
    );
    expect(await f.ask("rev-parse", `${commit}^{tree}`)).toBe(await plainGit(path, "rev-parse", `${second}^{tree}`));
    expect(changedPaths.sort()).toEqual(["a.txt", "b.txt", ARTIFACT].sort());
  });

  describe("where the artifact of an earlier round was taken out", () => {
    const stale = "---\nwork_item: W-1\n---\n";
    const begin = async (): Promise<{ start: string; path: string }> => {
      const start = await f.commitAtRemote("main", { [ARTIFACT]: stale });
      await f.mirror.fetch();
      return { start, path: (await f.prepare({ start })).path };
    };

    test("what was written is taken, also where it is the same once more", async () => {
      const { start, path } = await begin();
      await write(path, { [ARTIFACT]: stale, "more.txt": "x" });
      const collected = await f.collect(path, { start });
      expect(collected).toMatchObject({ kind: "collected", changedPaths: ["more.txt"], notes: [], wipRef: null });
      expect(await f.ask("rev-parse", "refs/orchestrator/runs/1~1")).toBe(start);
      expect(await f.ask("show", `refs/orchestrator/runs/1:${ARTIFACT}`)).toBe(stale.trimEnd());
    });

    test("a run that wrote none has none", async () => {
      const { start, path } = await begin();
      const collected = await f.collect(path, { start });
      expect(collected).toMatchObject({ kind: "collected", changedPaths: [ARTIFACT], notes: [], wipRef: null });
      expect(await f.ask("ls-tree", "-r", "--name-only", "refs/orchestrator/runs/1", "docs")).toBe("");
    });

    test("what stands in its place and cannot be taken does not bring it back", async () => {
      const { start, path } = await begin();
      await plainGit(path, "init", "--quiet", ARTIFACT);
      await write(join(path, ARTIFACT), { "a.txt": "a" });
      await plainGit(join(path, ARTIFACT), "add", "--all");
      await plainGit(join(path, ARTIFACT), "commit", "--quiet", "-m", "A repository of its own");
      expect(await f.collect(path, { start })).toMatchObject({ kind: "collected", changedPaths: [ARTIFACT] });
      expect(await f.ask("ls-tree", "-r", "--name-only", "refs/orchestrator/runs/1", "docs")).toBe("");
    });

    test("commits are kept as they are", async () => {
      const { start, path } = await begin();
      await write(path, { [ARTIFACT]: "new" });
      await plainGit(path, "add", "--all");
      await plainGit(path, "commit", "--quiet", "-m", "Mine");
      const mine = await plainGit(path, "rev-parse", "HEAD");
      const collected = await f.collect(path, { start });
      expect(collected).toMatchObject({ kind: "collected", changedPaths: [ARTIFACT], notes: [], wipRef: null });
      expect(await f.ask("rev-parse", "refs/orchestrator/runs/1~1", "refs/orchestrator/runs/1~2")).toBe(
        `${mine}\n${start}`,
      );
      expect(await f.ask("show", `refs/orchestrator/runs/1:${ARTIFACT}`)).toBe("new");
    });
  });

  test("a run that did nothing has an empty commit of its own", async () => {
    const { commit, changedPaths } = collected(await f.collect(path));
    expect(changedPaths).toEqual([]);
    expect(await f.ask("rev-parse", `${commit}^`)).toBe(f.base);
  });

  test("the artifact is taken where it is ignored, and only the artifact", async () => {
    await write(path, {
      ".gitignore": "docs/\n*.log\n",
      [ARTIFACT]: "the artifact",
      "docs/other.md": "x",
      "x.log": "x",
    });
    const { commit, changedPaths } = collected(await f.collect(path));
    expect(changedPaths.sort()).toEqual([".gitignore", ARTIFACT]);
    expect(await show(commit, ARTIFACT)).toBe("the artifact");
  });

  test("work on another branch or on none counts where HEAD is", async () => {
    await plainGit(path, "checkout", "--quiet", "-b", "other/name");
    await write(path, { "a.txt": "a" });
    await commitAll("On another branch");
    await plainGit(path, "checkout", "--quiet", "--detach");
    await write(path, { "b.txt": "b" });
    const detached = await commitAll("On none");
    const { commit, wipRef } = collected(await f.collect(path));
    expect(await f.ask("rev-parse", `${commit}^`)).toBe(detached);
    expect(wipRef).toBe(null);
  });

  test("modes and links stay what they are", async () => {
    await chmod(join(path, "run.sh"), 0o755);
    await symlink("/etc/hostname", join(path, "link"));
    await rm(join(path, "old.txt"));
    await symlink("README.md", join(path, "old.txt"));
    const { commit } = collected(await f.collect(path));
    expect(await f.ask("ls-tree", commit, "run.sh", "link", "old.txt", "--format=%(objectmode) %(path)")).toBe(
      "120000 link\n120000 old.txt\n100755 run.sh",
    );
    expect(await show(commit, "link")).toBe("/etc/hostname");
  });

  test("an artifact that is a link is taken as a link: reading it finds no regular file", async () => {
    await write(path, { ".gitignore": "docs/\n" });
    await mkdir(join(path, "docs/work-items/W-1"), { recursive: true });
    await symlink("/etc/hostname", join(path, ARTIFACT));
    const { commit } = collected(await f.collect(path));
    const read = await readCommittedFile(f.git, f.mirror.gitDir, commit, ARTIFACT, { maxBytes: 1000 });
    expect(read).toEqual({ kind: "not_regular", mode: "120000" });
  });

  test("names of any bytes, blanks, quotes and line breaks", async () => {
    const { stdout } = await promisify(execFile)("/bin/sh", [
      "-c",
      `cd "$1" && mkdir "$(printf 'd\\377r')" && echo 1 > "$(printf 'd\\377r/\\303(')" && echo 2 > "$(printf 'a\\nb "c" \\\\d')" && echo 3 > -- && echo 4 > ':(top)x'`,
      "sh",
      path,
    ]);
    expect(stdout).toBe("");
    const { commit } = collected(await f.collect(path));
    const listing = await f.git.bytes(["ls-tree", "-r", "-z", "--name-only", commit], { gitDir: f.mirror.gitDir });
    const found = listing.toString("latin1").split("\0");
    for (const name of ["d\xffr/\xc3(", 'a\nb "c" \\d', "--", ":(top)x"]) expect(found).toContain(name);
  });

  test("the removal of a submodule, and of its folder alone", async () => {
    await plainGit(path, "update-index", "--add", "--cacheinfo", `160000,${f.base},sub`);
    await plainGit(path, "commit", "--quiet", "-m", "Submodule");
    // Its folder is not there: to git that is a removal.
    const { commit } = collected(await f.collect(path));
    expect(await f.ask("ls-tree", commit, "sub")).toBe("");
    await mkdir(join(path, "sub"));
    const other = collected(await f.collect(path, { runId: 2 }));
    expect(await f.ask("ls-tree", other.commit, "sub", "--format=%(objectmode)")).toBe("160000");
  });

  test("a merge of what the base has become, without copying what the mirror has", async () => {
    const later = await f.commitAtRemote("main", { "later.txt": "x" });
    await f.mirror.fetch();
    await f.prepare();
    await plainGit(path, "merge", "--quiet", "origin/main");
    const objects = async (): Promise<number> => Number(/in-pack: (\d+)/.exec(await f.ask("count-objects", "-v"))?.[1]);
    const before = await objects();
    const { commit } = collected(await f.collect(path));
    expect(await f.ask("rev-parse", `${commit}^`)).toBe(later);
    // The orchestrator's own empty commit is all that is new.
    expect(await objects()).toBe(before + 1);
  });

  test("a folder in the place of a file and the other way round", async () => {
    await rm(join(path, "old.txt"));
    await write(path, { "old.txt/inside": "x" });
    await rm(join(path, "src"), { recursive: true });
    await writeFile(join(path, "src"), "a file now");
    const { commit } = collected(await f.collect(path));
    expect(await show(commit, "old.txt/inside")).toBe("x");
    expect(await show(commit, "src")).toBe("a file now");
  });

  test("very many files, and one that is large", async () => {
    const many = 3000;
    await promisify(execFile)("/bin/sh", [
      "-c",
      `cd "$1" && mkdir many && cd many && seq 1 ${many} | split -l 1 -a 4 - f && cd .. && head -c 20000000 /dev/urandom > large.bin`,
      "sh",
      path,
    ]);
    const { commit, changedPaths } = collected(await f.collect(path));
    expect(changedPaths.length).toBe(many + 1);
    expect(await f.ask("cat-file", "-s", `${commit}:large.bin`)).toBe("20000000");
  }, 60_000);

  test("line endings are stored as the repository's attributes say", async () => {
    await write(path, { ".gitattributes": "*.txt text\n", "crlf.txt": "a\r\nb\r\n", "raw.bin": "a\r\nb\r\n" });
    const { commit } = collected(await f.collect(path));
    expect(await f.ask("cat-file", "-s", `${commit}:crlf.txt`)).toBe("4");
    expect(await f.ask("cat-file", "-s", `${commit}:raw.bin`)).toBe("6");
  });

  test("a file that its attributes make impossible to convert is taken as it is", async () => {
    await write(path, { ".gitattributes": "*.u working-tree-encoding=UTF-16\n", "x.u": "odd", "y.txt": "fine" });
    const { commit, notes } = collected(await f.collect(path));
    expect(await show(commit, "x.u")).toBe("odd");
    expect(await show(commit, "y.txt")).toBe("fine");
    expect(notes).toEqual([expect.stringContaining("could not be converted")]);
  });

  test("a special file is left out and said so; the rest is taken", async () => {
    await rm(join(path, "old.txt"));
    await promisify(execFile)("mkfifo", [join(path, "old.txt"), join(path, "new-fifo")]);
    await write(path, { "fine.txt": "fine" });
    const { commit } = collected(await f.collect(path));
    expect(await show(commit, "fine.txt")).toBe("fine");
    expect(await names(commit)).not.toContain("new-fifo");
  });

  test("the workspace's files and git directory are left as they are", async () => {
    await write(path, { "a.txt": "a", "src/index.js": "changed" });
    const before = await plainGit(path, "status", "--porcelain");
    await f.collect(path);
    expect(await plainGit(path, "status", "--porcelain")).toBe(before);
    expect((await lstat(join(path, ".git"))).isDirectory()).toBe(true);
    // Nothing of the operation stays behind in the mirror either.
    expect(await exists(join(f.mirror.gitDir, "objects/info/alternates"))).toBe(false);
    expect((await f.mirror.clearStaleLocks()).length).toBe(0);
  });
});

describe("the message", () => {
  test("keeps its own trailers and is given the run's once", async () => {
    const message = "analysis: W-1\n\nBody: with a colon\n\nOrchestrator-Task: W-1\nOrchestrator-Run: 1\n";
    const { commit } = collected(await f.collect(path, { message }));
    expect(await f.ask("log", "-1", "--format=%(trailers:only)", commit)).toBe(
      "Orchestrator-Task: W-1\nOrchestrator-Run: 1",
    );
    const other = collected(await f.collect(path, { message: "a\n\nOrchestrator-Task: W-1\n", runId: 2 }));
    expect(await f.ask("log", "-1", "--format=%(trailers:only)", other.commit)).toBe(
      "Orchestrator-Task: W-1\nOrchestrator-Run: 2",
    );
  });
});

describe("what is not taken", () => {
  test("commits that do not descend from the start", async () => {
    await plainGit(path, "checkout", "--quiet", "--orphan", "fresh");
    const tip = await commitAll("From nothing");
    expect(await f.collect(path)).toEqual({ kind: "not_descended", tip });
    await plainGit(path, "checkout", "--quiet", "-B", "rewritten", f.base);
    await plainGit(path, "commit", "--quiet", "--amend", "-m", "Begin differently");
    expect(await f.collect(path)).toMatchObject({ kind: "not_descended" });
    expect(await f.mirror.resolve("refs/orchestrator/runs/1")).toBe(null);
  });

  test("a HEAD that names nothing that is there", async () => {
    const missing = "0123456789012345678901234567890123456789";
    const blob = await plainGit(path, "hash-object", "-w", "README.md");
    for (const [head, reason] of [
      ["ref: refs/heads/unborn\n", "refs/heads/unborn, which does not exist"],
      [`${missing}\n`, missing],
      [`${blob}\n`, "not a commit"],
      ["nonsense\n", "no commit and no ref"],
      ["ref: ../../../etc/passwd\n", "no commit and no ref"],
    ]) {
      await writeFile(join(path, ".git/HEAD"), head!);
      expect(await f.collect(path)).toEqual({ kind: "unreadable", reason: expect.stringContaining(reason!) });
    }
  });

  test("commits whose objects are damaged", async () => {
    await write(path, { "a.txt": "a" });
    const tip = await commitAll("Work");
    const blob = await plainGit(path, "rev-parse", `${tip}:a.txt`);
    const object = join(path, ".git/objects", blob.slice(0, 2), blob.slice(2));
    const whole = await readFile(object);
    for (const damage of [Buffer.from("garbage"), whole.subarray(0, 5), Buffer.alloc(0)]) {
      await rm(object, { force: true });
      await writeFile(object, damage);
      // The file is there as well, so that only the commit's own copy is damaged; git writes it anew from the file.
      const result = await f.collect(path);
      expect(["collected", "unreadable"]).toContain(result.kind);
      if (result.kind === "collected") expect(await show(result.commit, "a.txt")).toBe("a");
    }
    await rm(join(path, "a.txt"));
    expect(await f.collect(path, { runId: 2 })).toMatchObject({ kind: "unreadable" });
    expect(await f.ask("fsck", "--strict")).toBe("");
  });

  test("a workspace that is gone or has become a link", async () => {
    const unreadable = { kind: "unreadable", reason: expect.stringContaining("workspace") };
    await rm(path, { recursive: true });
    expect(await f.collect(path)).toEqual(unreadable);
    await symlink(f.clone, path);
    expect(await f.collect(path)).toEqual(unreadable);
  });
});

test("an abort leaves by the signal's reason, with nothing half done", async () => {
  await write(path, { "a.txt": "a" });
  const reason = new Error("expired");
  await expect(f.collect(path, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  expect(await f.mirror.resolve("refs/orchestrator/runs/1")).toBe(null);
  expect((await f.mirror.clearStaleLocks()).length).toBe(0);
  expect(f.leftovers()).toEqual([]);
});

test("killed between any two of its git commands, it leaves the run's ref only where what was beside the work is kept too", async () => {
  const WIP = "refs/orchestrator/wip/1";
  const RUN = "refs/orchestrator/runs/1";
  /** A git whose caller dies right after its n-th command. */
  const dyingAfter = (n: number): Git => {
    const parentEnv = { PATH: process.env.PATH ?? "" };
    let count = 0;
    return createGit({ instanceId: f.instanceId, networkConfig: null, parentEnv }, async (...command) => {
      const ended = await supervise(...command);
      count += 1;
      if (count === n) throw new Error("killed");
      return ended;
    });
  };
  await plainGit(path, "checkout", "--quiet", "-b", "side");
  await write(path, { "side.txt": "side" });
  const side = await commitAll("Side");
  await plainGit(path, "checkout", "--quiet", BRANCH);
  await write(path, { "a.txt": "a", "inside/deep.txt": "deep" });
  await plainGit(join(path, "inside"), "init", "--quiet");
  const left: string[] = [];
  for (let n = 1, isKilled = true; isKilled; n++) {
    isKilled = await f.collect(path, { git: dyingAfter(n) }).then(
      () => false,
      () => true,
    );
    const refs = await f.ask("for-each-ref", "--format=%(refname)", "refs/orchestrator");
    if (refs !== left.at(-1)) left.push(refs);
    // Whoever goes on finds that there is no run's ref, and collects.
    if (refs === WIP) collected(await f.collect(path));
    if (refs !== "") {
      expect(await f.ask("rev-parse", `${WIP}^@`)).toBe(`${await f.mirror.resolve(RUN)}\n${side}`);
      expect(await show(WIP, "inside/deep.txt")).toBe("deep");
    }
    for (const ref of [RUN, WIP]) await f.ask("update-ref", "-d", ref);
  }
  expect(left).toEqual(["", WIP, `${RUN}\n${WIP}`]);
}, 120_000);
