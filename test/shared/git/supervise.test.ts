import { mkdtemp, readdir, readlink, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createGit } from "@orchestrator/shared/git/run_git.ts";
import { supervise } from "@orchestrator/shared/git/supervise.ts";
import { isRunning, readProcess } from "@orchestrator/shared/process/proc_table.ts";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { script } from "../../scheduler/git/fixture.ts";

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "supervise-"));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

const fakeGit = async (body: string, runProgram?: typeof supervise) => {
  await script(join(dir, "git"), body);
  const parentEnv = { PATH: `${dir}:${process.env.PATH}` };
  return createGit({ instanceId: "supervise-test", parentEnv, networkConfig: null }, runProgram);
};

/** The pid in a message, of a process that runs and is ended with the test. */
const pidIn = (error: unknown): number => {
  const pid = Number(/pid (\d+)/.exec(String(error))?.[1]);
  onTestFinished(() => void process.kill(pid, "SIGKILL"));
  expect(isRunning(readProcess(pid)!)).toBe(true);
  return pid;
};

/** How many ends of pipes this process has open; those of its children are sockets under Node. */
const openPipes = async (): Promise<number> => {
  const files = await readdir("/proc/self/fd");
  const targets = await Promise.all(
    files.map((file) => readlink(`/proc/self/fd/${file}`).catch(() => "closed by now")),
  );
  return targets.filter((target) => /^(pipe|socket):/.test(target)).length;
};

describe("one that no signal ends, as in the kernel's uninterruptible sleep", () => {
  const deaf: typeof supervise = (program, args, o) =>
    supervise(program, args, o, { graceMs: 10, goneMs: 20, signalGroup: () => undefined });
  const input = "more than a pipe holds".repeat(100_000);

  test("is not waited for after its time: the error names it and says what to do, and its pipes are let go", async () => {
    const git = await fakeGit("exec sleep 300", deaf);
    const before = await openPipes();
    const error = await git
      .ok(["fetch"], { gitDir: dir, input, timeoutMs: 50, errorCode: "git_fetch" })
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      code: "git_fetch",
      message:
        `git fetch did not end within 0.05 s, and cannot be ended (pid ${pidIn(error)}): it waits in the kernel, as a rule ` +
        "for a disk or a network file system that does not answer. Bring that back, or restart the machine",
    });
    await expect.poll(openPipes).toBeLessThanOrEqual(before);
  });

  test("nor after an abort, whose reason is kept", async () => {
    const git = await fakeGit("exec sleep 300", deaf);
    const controller = new AbortController();
    const pushing = git.ok(["push"], { gitDir: dir, signal: controller.signal, errorCode: "git_push" });
    controller.abort(new Error("the finalizer has expired"));
    const error = await pushing.catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      code: "git_push",
      message: expect.stringContaining(`git push was told to end, and cannot be ended (pid ${pidIn(error)})`),
      cause: controller.signal.reason,
    });
  });

  test("nor after too much output", async () => {
    const git = await fakeGit("exec yes", deaf);
    const error = await git.run(["log"], { gitDir: dir, maxOutputBytes: 100_000 }).catch((thrown: unknown) => thrown);
    const pid = Number(/pid (\d+)/.exec(String(error))?.[1]);
    expect(String(error)).toContain(
      `git log wrote more than the 100000 bytes it may, and cannot be ended (pid ${pid})`,
    );
    // Its pipe is closed: that ends it after all.
    await expect.poll(() => readProcess(pid)).toBe(null);
  });
});

test("what has left the group and never falls silent does not hold up the answer", async () => {
  const git = await fakeGit("setsid sh -c 'for i in $(seq 500); do echo x >&2; sleep 0.02; done' & exec sleep 300");
  const result = await git.run(["fetch"], { gitDir: dir, timeoutMs: 300 });
  expect(result).toMatchObject({ timedOut: true, survivors: [], stderr: expect.stringContaining("x\n") });
});
