import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { systemClock } from "@orchestrator/shared/clock.ts";
import { isAlive, readProcess } from "@orchestrator/shared/process/proc_table.ts";
import { describe, expect, test } from "vitest";
import { type CommandTarget, createCommandDelivery } from "../../../services/scheduler/notify_command.ts";
import { tempFolder } from "../../helpers/temp_folder.ts";
import { NOTIFICATION } from "./receiver.ts";

const PATH = process.env.PATH ?? "";

const make = async (script: string, over: Partial<CommandTarget> = {}) => {
  const cwd = await tempFolder();
  await writeFile(join(cwd, "tell"), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  const deliver = createCommandDelivery({
    ...{
      command: [join(cwd, "tell"), "an argument"],
      cwd,
      parentEnv: { PATH },
      instanceId: "instance-1",
      tempFolder: cwd,
    },
    ...{ clock: systemClock, graceMs: 200, ...over },
  });
  const stop = new AbortController();
  const read = (name: string) => readFile(join(cwd, name), "utf8");
  return { cwd, stop, read, run: () => deliver(NOTIFICATION, stop.signal) };
};

const expectGone = async (pids: string): Promise<void> => {
  for (const pid of pids.trim().split(/\s+/).map(Number)) {
    expect([pid, isAlive(pid, readProcess(pid)?.started ?? 0)]).toEqual([pid, false]);
  }
};

test("is given the notification as JSON on its standard input, in the folder of the configuration", async () => {
  const { run, read } = await make('cat >got; echo "$1" >argument; cat /dev/stdin >again');
  expect(await run()).toEqual({ kind: "delivered", tries: 1 });
  const got = await read("got");
  expect(got.endsWith("}\n")).toBe(true);
  expect(JSON.parse(got)).toEqual(NOTIFICATION);
  expect(await read("argument")).toBe("an argument\n");
});

test("standard input can be opened by its name as well", async () => {
  const { run, read } = await make("cat /dev/stdin >got");
  await run();
  expect(JSON.parse(await read("got"))).toEqual(NOTIFICATION);
});

test("one that does not read its input is delivered to all the same", async () => {
  const { run } = await make("exec 0<&-; exit 0");
  expect(await run()).toEqual({ kind: "delivered", tries: 1 });
});

test("gets of the environment only what agents may have, and the mark by which it is found", async () => {
  const parentEnv = { PATH, HOME: "/home/of", LC_TIME: "C", AWS_SECRET: "x", MY_TOKEN: "y", ORCH_API_TOKEN: "z" };
  const { run, read } = await make("env >seen", { parentEnv });
  await run();
  const names = (await read("seen")).split("\n").map((line) => line.split("=")[0]!);
  const own = new Set(["PWD", "OLDPWD", "SHLVL", "_", ""]);
  expect(names.filter((name) => !own.has(name)).sort()).toEqual(["HOME", "LC_TIME", "ORCH_INSTANCE_ID", "PATH"]);
});

describe("a failure says why, and is not tried again", () => {
  test("an exit code, with the end of what it wrote", async () => {
    const { run, read } = await make("echo x >>calls; echo to out; echo to err >&2; exit 3");
    expect(await run()).toEqual({
      kind: "failed",
      tries: 1,
      reason: "the command exited with 3: to out\nto err",
    });
    expect(await read("calls")).toBe("x\n");
  });

  test("much output", async () => {
    const { run } = await make("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo the end; exit 1");
    const delivery = await run();
    expect(delivery).toMatchObject({
      kind: "failed",
      reason: expect.stringMatching(/^the command exited with 1: x+\nthe end$/),
    });
    expect(JSON.stringify(delivery).length).toBeLessThan(700);
  });

  test("a signal", async () => {
    const { run } = await make("kill -KILL $$");
    expect(await run()).toEqual({ kind: "failed", tries: 1, reason: "the command was ended by SIGKILL" });
  });

  test("a program that is not there", async () => {
    const { run } = await make("", { command: ["there-is-no-such-program"] });
    expect(await run()).toMatchObject({
      kind: "failed",
      reason: expect.stringMatching(/^the command 'there-is-no-such-program' was not found in PATH/),
    });
  });
});

describe("nothing of it is left", () => {
  test("what it put into the background is ended when it has ended", async () => {
    const { run, read } = await make("sleep 600 & (sleep 600; :) & echo $! >pids; jobs -p >>pids; exit 0");
    expect(await run()).toEqual({ kind: "delivered", tries: 1 });
    await expectGone(await read("pids"));
  });

  test("one that does not end in time is ended, also where it does not listen", async () => {
    const { run, read } = await make(
      "trap '' TERM; sleep 600 & echo $$ $! >pids; echo so far; while :; do sleep 0.1; done",
      {
        timeoutMs: 500,
      },
    );
    expect(await run()).toEqual({
      kind: "failed",
      tries: 1,
      reason: "the command did not end within 500 ms: so far",
    });
    await expectGone(await read("pids"));
  });

  test("one that runs when the scheduler stops is ended", async () => {
    const { run, read, stop } = await make("sleep 600 & echo $$ $! >part; mv part pids; wait");
    const running = run();
    running.catch(() => undefined);
    await expect.poll(() => read("pids").catch(() => "")).not.toBe("");
    stop.abort(new Error("stops"));
    await expect(running).rejects.toThrow("stops");
    await expectGone(await read("pids"));
  });
});
