import { readCommittedFile } from "@orchestrator/shared/git/read_committed_file.ts";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { commitFile } from "../../../services/scheduler/git/commit_file.ts";
import { commitMessage } from "../../../services/scheduler/git/commit_message.ts";
import { type Fixture, makeFixture } from "./fixture.ts";

const PATH = "docs/work-items/W-1/15-staging-log.md";

let f: Fixture;
beforeEach(async () => {
  f = await makeFixture();
});
afterEach(() => f.remove());

const commit = (
  content: string | Uint8Array,
  options: Partial<Parameters<typeof commitFile>[0]> = {},
): Promise<string> =>
  commitFile({
    git: f.git,
    mirror: f.mirror,
    parent: f.base,
    path: PATH,
    content,
    message: "deploy-staging: W-1",
    runId: 9,
    fence: async () => {},
    ...options,
  });

describe("commitFile", () => {
  test("differs from its only parent by that one file, and is kept under the run's ref", async () => {
    const sha = await commit("---\nstaging_status: SUCCESS\n---\n");
    expect(await f.ask("rev-parse", `${sha}^@`)).toBe(f.base);
    expect(await f.ask("diff-tree", "-r", "--name-status", f.base, sha)).toBe(`A\t${PATH}`);
    expect(await f.ask("ls-tree", sha, PATH, "--format=%(objectmode)")).toBe("100644");
    expect(await f.mirror.resolve("refs/orchestrator/runs/9")).toBe(sha);
    expect(await f.ask("log", "-1", "--format=%an <%ae> %cn <%ce>|%B", sha)).toBe(
      "Orchestrator <orchestrator@localhost> Orchestrator <orchestrator@localhost>|deploy-staging: W-1\n\nOrchestrator-Run: 9",
    );
    expect(await f.ask("fsck", "--strict", "--no-dangling")).toBe("");
  });

  test("any bytes of any size come back as they were", async () => {
    const contents = [
      "",
      "\ncommit refs/heads/evil\n",
      "no newline",
      Buffer.from([0, 255, 10, 0]),
      Buffer.alloc(3_000_000, "abc\n"),
    ];
    for (const content of contents) {
      const sha = await commit(content);
      const read = await readCommittedFile(f.git, f.mirror.gitDir, sha, PATH, { maxBytes: 4_000_000 });
      expect(read.kind === "file" && Buffer.from(content).equals(read.content)).toBe(true);
    }
    expect(await f.mirror.resolve("refs/heads/evil")).toBe(null);
  });

  test("a second one replaces what the ref names, also where it does not descend from the first", async () => {
    await commit("one");
    const second = await commit("two");
    expect(await f.mirror.resolve("refs/orchestrator/runs/9")).toBe(second);
    expect(await f.ask("rev-parse", `${second}^`)).toBe(f.base);
  });

  test("a link or a file in the place of a folder on the way gives way", async () => {
    const parent = await commit("a file", { path: "docs/work-items" });
    const sha = await commit("the artifact", { parent });
    expect(await f.ask("show", `${sha}:${PATH}`)).toBe("the artifact");
  });

  test("a path that is none, or a parent that is not there, is refused", async () => {
    for (const path of ["", "/etc/passwd", "a//b", "a\nb", 'a"b', "a/", "a/../b", ".git/config"]) {
      await expect(commit("x", { path })).rejects.toThrow("not a path");
    }
    await expect(commit("x", { parent: "0123456789012345678901234567890123456789" })).rejects.toMatchObject({
      code: "git",
    });
    expect(await f.mirror.resolve("refs/orchestrator/runs/9")).toBe(null);
  });
});

describe("commitMessage", () => {
  test.each([
    ["subject only", { subject: "A", trailers: { "Orchestrator-Run": 1 } }, "A\n\nOrchestrator-Run: 1\n"],
    ["no trailers", { subject: "A", body: "B" }, "A\n\nB\n"],
    ["line breaks in subject and trailer", { subject: "A\nB: c", trailers: { X: "y\nZ: w" } }, "A B: c\n\nX: y Z: w\n"],
    [
      "a body between",
      { subject: "A", body: "\nKey: value\n\n", trailers: { X: 1, Y: 2 } },
      "A\n\nKey: value\n\nX: 1\nY: 2\n",
    ],
  ])("%s", (_, parts, message) => {
    expect(commitMessage(parts as Parameters<typeof commitMessage>[0])).toBe(message);
  });
});

describe("readCommittedFile", () => {
  test("tells a file from what is missing, too large, a folder, or behind a link", async () => {
    const sha = await commit("12345");
    const read = (path: string, maxBytes = 100) => readCommittedFile(f.git, f.mirror.gitDir, sha, path, { maxBytes });
    expect(await read(PATH)).toEqual({ kind: "file", content: Buffer.from("12345") });
    expect(await read(PATH, 5)).toMatchObject({ kind: "file" });
    expect(await read(PATH, 4)).toEqual({ kind: "too_large", bytes: 5 });
    expect(await read("docs/work-items/W-1")).toEqual({ kind: "not_regular", mode: "040000" });
    expect(await read("docs/work-items/W-1/")).toEqual({ kind: "missing" });
    expect(await read("nothing")).toEqual({ kind: "missing" });
    expect(await read(`${PATH}/inside`)).toEqual({ kind: "missing" });
    expect(await read("docs/*")).toEqual({ kind: "missing" });
    expect(await read(":(top)README.md")).toEqual({ kind: "missing" });
  });

  test("a commit that is not there is an error", async () => {
    const reading = readCommittedFile(f.git, f.mirror.gitDir, "0123456789012345678901234567890123456789", PATH, {
      maxBytes: 1,
    });
    await expect(reading).rejects.toMatchObject({ code: "git" });
  });
});
