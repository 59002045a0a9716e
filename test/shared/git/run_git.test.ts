import { spawn } from "node:child_process";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createGit, type Git } from "@orchestrator/shared/git/run_git.ts";
import { isRunning, listPids, readEnviron, readProcess } from "@orchestrator/shared/process/proc_table.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

let dir: string;
let git: Git;
const instanceId = `run-git-test-${process.pid}`;
const { PATH = "", HOME = "" } = process.env;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "run-git-"));
  git = createGit({ instanceId, parentEnv: { PATH, HOME, SECRET_TOKEN: "hush" }, networkConfig: null });
  await git.ok(["init", "--quiet", "--bare", "--template=", dir], { gitDir: dir });
});
afterEach(() => rm(dir, { recursive: true, force: true }));

/** A git that runs a shell script instead of git itself: found first in PATH. */
const fakeGit = async (script: string, networkConfig: string | null = null): Promise<Git> => {
  await writeFile(join(dir, "git"), `#!/bin/sh\n${script}\n`);
  await chmod(join(dir, "git"), 0o755);
  return createGit({ instanceId, parentEnv: { PATH: `${dir}:${PATH}`, HOME, SECRET_TOKEN: "hush" }, networkConfig });
};

const leftovers = (): number[] =>
  listPids().filter((pid) => {
    const entry = readProcess(pid);
    return entry !== null && isRunning(entry) && readEnviron(pid)?.ORCH_INSTANCE_ID === instanceId;
  });

const until = async (condition: () => boolean | Promise<boolean>): Promise<void> => {
  while (!(await condition())) await sleep(5);
};

describe("run", () => {
  test("answers with output and exit code, and never throws for a failure", async () => {
    const fine = await git.run(["rev-parse", "--is-bare-repository"], { gitDir: dir });
    expect(fine).toMatchObject({ code: 0, timedOut: false, aborted: false });
    expect(fine.stdout.toString()).toBe("true\n");
    const bad = await git.run(["rev-parse", "--verify", "nothing"], { gitDir: dir });
    expect(bad.code).toBe(128);
    expect(bad.stderr).toContain("fatal");
  });

  test("finds no repository but the one it is given", async () => {
    await expect(git.ok(["rev-parse", "--git-dir"], { cwd: dir })).rejects.toThrow(ToolError);
  });

  test("hands input over, from memory or from a file, and output into a file", async () => {
    const content = Buffer.alloc(3 * 1024 * 1024, "x\n");
    const fromMemory = await git.ok(["hash-object", "-w", "--stdin"], { gitDir: dir, input: content });
    await writeFile(join(dir, "in"), content);
    const fromFile = await git.ok(["hash-object", "--stdin"], { gitDir: dir, inputFile: join(dir, "in") });
    expect(fromFile).toBe(fromMemory);
    const outputFile = join(dir, "out");
    const stdout = await git.bytes(["cat-file", "blob", fromMemory.trim()], { gitDir: dir, outputFile });
    expect(stdout.length).toBe(0);
    expect((await readFile(outputFile)).equals(content)).toBe(true);
  });

  test("input that the command does not read does no harm", async () => {
    const result = await git.run(["--version"], { gitDir: dir, input: Buffer.alloc(4 * 1024 * 1024) });
    expect(result.code).toBe(0);
  });

  test("output above the limit ends the command with an error", async () => {
    const flood = await fakeGit("yes");
    await expect(flood.run(["log"], { gitDir: dir, maxOutputBytes: 100_000 })).rejects.toThrow(
      "git log wrote more than the 100000 bytes it may",
    );
    expect(leftovers()).toEqual([]);
  });

  test("a child left behind that holds the error stream delays nothing and is left alone", async () => {
    const leaving = await fakeGit("sleep 30 >/dev/null & echo $!; exit 3");
    const result = await leaving.run(["push"], { gitDir: dir });
    const pid = Number(result.stdout.toString());
    try {
      expect(result.code).toBe(3);
      expect(isRunning(readProcess(pid)!)).toBe(true);
    } finally {
      process.kill(pid, "SIGKILL");
    }
  });
});

describe("environment", () => {
  test("holds nothing of the parent's but an allow-list, and the instance's mark", async () => {
    const show = await fakeGit("env -0");
    const names = async (network: boolean): Promise<Map<string, string>> =>
      new Map(
        (await show.ok(["x"], { gitDir: dir, network })).split("\0").map((entry) => {
          const equals = entry.indexOf("=");
          return [entry.slice(0, equals), entry.slice(equals + 1)];
        }),
      );
    const local = await names(false);
    expect(local.has("SECRET_TOKEN")).toBe(false);
    expect(local.has("HOME")).toBe(false);
    expect(local.get("ORCH_INSTANCE_ID")).toBe(instanceId);
    expect(local.get("GIT_CONFIG_GLOBAL")).toBe("/dev/null");
    expect(local.get("GIT_DIR")).toBe(dir);
    const network = await names(true);
    expect(network.has("SECRET_TOKEN")).toBe(false);
    expect(network.get("HOME")).toBe(HOME);
    expect(network.get("GIT_SSH_COMMAND")).toBe("ssh -o BatchMode=yes");
  });

  test("only a command that talks to a remote reads the operator's file", async () => {
    const file = join(dir, "operator.gitconfig");
    await writeFile(file, "[core]\n\tsshCommand = ssh -i /keys/deploy\n");
    const own = createGit({ instanceId, parentEnv: { PATH, HOME }, networkConfig: file });
    const args = ["config", "--get", "core.sshCommand"];
    expect((await own.run(args, { gitDir: dir })).code).toBe(1);
    expect(await own.ok(args, { gitDir: dir, network: true })).toBe("ssh -i /keys/deploy\n");
    const ssh = await own.ok(["var", "-l"], { gitDir: dir, network: true });
    expect(ssh).not.toContain("BatchMode");
  });

  test("hooks and fsmonitor of a repository's own configuration stay off", async () => {
    const canary = join(dir, "canary");
    await writeFile(join(dir, "evil"), `#!/bin/sh\ntouch ${canary}\n`);
    await chmod(join(dir, "evil"), 0o755);
    await git.ok(["config", "core.fsmonitor", join(dir, "evil")], { gitDir: dir });
    await git.ok(["config", "core.hooksPath", dir], { gitDir: dir });
    await git.ok(["config", "core.bare", "false"], { gitDir: dir });
    await git.ok(["status"], { gitDir: dir, workTree: tmpdir() });
    expect(await git.ok(["config", "core.hooksPath"], { gitDir: dir })).toBe("/dev/null\n");
    await expect(readFile(canary)).rejects.toThrow("ENOENT");
  });
});

describe("ending", () => {
  // A child that leaves SIGTERM unheard, with a grandchild: both must be gone before the answer comes.
  const STUBBORN = `trap '' TERM; sleep 300 & touch "$GIT_DIR/started"; while :; do sleep 300; done`;
  const started = (): Promise<boolean> =>
    readFile(join(dir, "started")).then(
      () => true,
      () => false,
    );

  test("an abort ends the whole process group before the answer comes", async () => {
    const stubborn = await fakeGit(STUBBORN);
    const controller = new AbortController();
    const running = stubborn.run(["push"], { gitDir: dir, signal: controller.signal });
    await until(started);
    expect(leftovers().length).toBeGreaterThan(1);
    controller.abort(new Error("enough"));
    expect(await running).toMatchObject({ code: null, aborted: true, timedOut: false });
    expect(leftovers()).toEqual([]);
  });

  test("ok throws the signal's own reason", async () => {
    const stubborn = await fakeGit("sleep 300");
    const controller = new AbortController();
    const reason = new Error("the finalizer has expired");
    const running = stubborn.ok(["push"], { gitDir: dir, signal: controller.signal });
    controller.abort(reason);
    await expect(running).rejects.toBe(reason);
    await expect(stubborn.ok(["push"], { gitDir: dir, signal: controller.signal })).rejects.toBe(reason);
    expect(leftovers()).toEqual([]);
  });

  test("a timeout ends the whole process group too", async () => {
    const stubborn = await fakeGit(STUBBORN);
    await expect(stubborn.ok(["fetch"], { gitDir: dir, timeoutMs: 300, errorCode: "git_fetch" })).rejects.toMatchObject(
      {
        code: "git_fetch",
        message: "git fetch did not end within 0.3 s",
      },
    );
    expect(leftovers()).toEqual([]);
  });

  test("another process of the same name is not touched", async () => {
    const other = spawn("sleep", ["300"], { env: { PATH, ORCH_INSTANCE_ID: "another" }, detached: true });
    const stubborn = await fakeGit("sleep 300");
    await stubborn.run(["push"], { gitDir: dir, timeoutMs: 100 });
    expect(isRunning(readProcess(other.pid!)!)).toBe(true);
    other.kill("SIGKILL");
  });
});

describe("errors", () => {
  test("name the command, the exit code and what git said, with the given class", async () => {
    await expect(
      git.ok(["rev-parse", "--verify", "nothing"], { gitDir: dir, errorCode: "git_ref" }),
    ).rejects.toMatchObject({
      code: "git_ref",
      message: "git rev-parse failed with exit code 128: fatal: Needed a single revision",
    });
  });

  test("a full disk is a class of its own", async () => {
    const full = await fakeGit('echo "fatal: write error: No space left on device" >&2; exit 128');
    await expect(full.ok(["fetch"], { gitDir: dir, errorCode: "git_fetch" })).rejects.toMatchObject({
      code: "no_space",
    });
  });

  test("credentials in a URL are not repeated", async () => {
    const failing = await fakeGit(
      'echo "fatal: unable to access https://me:s3cret@example.invalid/x.git/" >&2; exit 128',
    );
    const error = await failing.ok(["fetch"], { gitDir: dir }).catch((e: unknown) => e);
    expect(String(error)).toContain("example.invalid");
    expect(String(error)).not.toContain("s3cret");
  });

  test("a missing git is named as such", async () => {
    const none = createGit({ instanceId, parentEnv: { PATH: join(dir, "empty") }, networkConfig: null });
    await expect(none.run(["--version"], { gitDir: dir })).rejects.toMatchObject({ code: "command_not_found" });
  });
});
