import { chmod, mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { systemClock } from "@orchestrator/shared/clock.ts";
import { isAlive, type ProcessId, readProcess } from "@orchestrator/shared/process/proc_table.ts";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Command, PlanStep } from "../../services/stager/plan.ts";
import { type StepLimit, StepRunner } from "../../services/stager/steps.ts";
import { judgeStep, type StepEnding } from "../../services/stager/verdict.ts";
import { tempFolder } from "../helpers/temp_folder.ts";

const LONG: StepLimit = { ms: 60_000, of: "run", statedMs: 60_000 };
const PATH = "/usr/local/bin:/usr/bin:/bin";

interface Bench {
  cwd: string;
  runner: StepRunner;
  run(
    command: Command | string,
    change?: { limit?: StepLimit; signal?: AbortSignal },
  ): Promise<{ ending: StepEnding; output: string }>;
  /** All that was printed up to now, by whichever step. */
  printed(): string;
  /** The process whose pid a step wrote into that file. */
  process(file: string): Promise<ProcessId>;
}

let runs = 1000;

const bench = async (change: { killGraceMs?: number; env?: Record<string, string> } = {}): Promise<Bench> => {
  const folder = await tempFolder();
  const cwd = join(folder, "work");
  await mkdir(cwd);
  const instanceId = `test-${process.pid}`;
  runs += 1;
  const runner = new StepRunner({
    cwd,
    env: { PATH, ORCH_INSTANCE_ID: instanceId, ORCH_RUN_ID: String(runs), ...change.env },
    tempFolder: folder,
    placeholders: { commit: "c", branch: "b", work_item_id: "w" },
    marks: { instanceId, runId: runs, folder },
    killGraceMs: change.killGraceMs ?? 2000,
    clock: systemClock,
  });
  onTestFinished(async () => {
    await runner.endAll();
  });
  let printed = "";
  return {
    cwd,
    runner,
    printed: () => printed,
    run: async (command, { limit = LONG, signal = new AbortController().signal } = {}) => {
      const step: PlanStep = {
        kind: "run",
        name: "x",
        timeoutMs: null,
        command: typeof command === "string" ? { kind: "shell", script: command } : command,
        infraExitCodes: [75],
      };
      let output = "";
      const ending = await runner.run({
        step,
        limit,
        signal,
        onAttempt: () => {},
        onOutput: (chunk) => {
          output += new TextDecoder().decode(chunk);
          printed += new TextDecoder().decode(chunk);
        },
      });
      return { ending, output };
    },
    process: async (file) => {
      const pid = Number(await readFile(join(cwd, file), "utf8"));
      if (pid === 0) throw new Error(`${file} is not written yet`);
      return { pid, started: readProcess(pid)?.started ?? 0 };
    },
  };
};

const argv = (...words: [string, ...string[]]): Command => ({ kind: "argv", argv: words });
const isUp = ({ pid, started }: ProcessId): boolean => isAlive(pid, started);
/** Writes the pid of the last background process into a file. */
const NOTE = "echo $! > pid";

describe("what a step runs", () => {
  test("an argv without a shell: nothing in it is expanded", async () => {
    const { run } = await bench();
    expect(await run(argv("printf", "%s|", "$HOME", "a b", "*", "", "-c"))).toEqual({
      ending: { kind: "exited", program: "command", code: 0 },
      output: "$HOME|a b|*||-c|",
    });
  });

  test("a string with sh -c, in the checkout, with nothing on standard input", async () => {
    const { run, cwd } = await bench({ env: { GREETING: "hello" } });
    const { ending, output } = await run('echo "$GREETING"; pwd; cat; exit 3');
    expect(ending).toEqual({ kind: "exited", program: "shell", code: 3 });
    expect(output).toBe(`hello\n${cwd}\n`);
  });

  test("both outputs in the order in which they were written, also by their names", async () => {
    const { run } = await bench();
    const { output } = await run("echo 1; echo 2 >&2; echo 3; echo 4 > /dev/stderr; echo 5 > /dev/stdout");
    expect(output).toBe("1\n2\n3\n4\n5\n");
  });

  test("a pipe for the output that had its name in the run's folder, which is cleared after a stager that was killed", async () => {
    const { run, cwd } = await bench();
    const { output } = await run("readlink /proc/self/fd/1");
    // Where the runtime makes pipes itself they never have one.
    expect(output).toMatch("deno" in process.versions ? /^pipe:/ : new RegExp(`^${dirname(cwd)}/orchestrator-`));
  });

  test("a process group of its own", async () => {
    const { run } = await bench();
    const { output } = await run("echo $$; ps -o pgid= -p $$");
    const [pid, group] = output.trim().split(/\s+/);
    expect(group).toBe(pid);
    expect(Number(group)).not.toBe(readProcess(process.pid)!.pgid);
  });

  test.each<[string, string | Command, StepEnding]>([
    ["exit code", "exit 75", { kind: "exited", program: "shell", code: 75 }],
    ["a shell that kills itself", "kill -KILL $$", { kind: "signalled", signal: "SIGKILL" }],
    [
      "a shell whose program was killed",
      "sh -c 'kill -KILL $$'; exit $?",
      { kind: "exited", program: "shell", code: 137 },
    ],
    ["a program that crashes", argv("sh", "-c", "kill -SEGV $$"), { kind: "signalled", signal: "SIGSEGV" }],
    ["a missing command in a shell", "no-such-command-here", { kind: "exited", program: "shell", code: 127 }],
    [
      "a missing command",
      argv("no-such-command-here"),
      { kind: "unusable", program: "command", command: "no-such-command-here", problem: "not_found" },
    ],
    [
      "a missing file of the machine",
      argv("/no/such/file"),
      { kind: "unusable", program: "absolute", command: "/no/such/file", problem: "not_found" },
    ],
    [
      "a missing script of the branch",
      argv("./scripts/x"),
      { kind: "unusable", program: "own", command: "./scripts/x", problem: "not_found" },
    ],
    ["a directory", argv("./."), { kind: "unusable", program: "own", command: "./.", problem: "not_executable" }],
  ])("%s", async (_, command, ending) => {
    const { run } = await bench();
    expect((await run(command)).ending).toEqual(ending);
  });

  test("scripts of the branch: without the x bit, without their interpreter, without a first line, as a broken link", async () => {
    const { run, cwd } = await bench();
    const write = async (name: string, text: string, mode: number) => {
      await writeFile(join(cwd, name), text);
      await chmod(join(cwd, name), mode);
    };
    await write("no-x", "#!/bin/sh\n", 0o644);
    await write("no-interpreter", "#!/no/such/interpreter\n", 0o755);
    await write("no-first-line", "echo ran\n", 0o755);
    await symlink("nowhere", join(cwd, "broken"));
    expect((await run(argv("./no-x"))).ending).toMatchObject({
      kind: "unusable",
      program: "own",
      problem: "not_executable",
    });
    expect((await run(argv("./no-interpreter"))).ending).toEqual({ kind: "exited", program: "own", code: 127 });
    expect(await run(argv("./no-first-line"))).toEqual({
      ending: { kind: "exited", program: "own", code: 0 },
      output: "ran\n",
    });
    expect((await run(argv("./broken"))).ending).toMatchObject({
      kind: "unusable",
      program: "own",
      problem: "not_found",
    });
  });

  test("a command that is in PATH but cannot be run", async () => {
    const bin = await tempFolder();
    await writeFile(join(bin, "tool"), "#!/bin/sh\n");
    const { run } = await bench({ env: { PATH: `${bin}:${PATH}` } });
    const { ending } = await run(argv("tool"));
    expect(judgeStep(ending)).toMatchObject({ verdict: "tool_error", class: "command_not_executable" });
  });

  test("a checkout that an earlier step has removed is the branch's fault", async () => {
    const { run, cwd } = await bench();
    await run(`cd / && rm -rf '${cwd}'`);
    expect(judgeStep((await run(argv("true"))).ending)).toEqual({
      verdict: "failed",
      reason: "the checkout of the branch is not found",
    });
  });

  test("output that never seems to end is taken as it comes", async () => {
    const { run } = await bench();
    const { ending, output } = await run("head -c 20000000 /dev/zero; echo end");
    expect(ending).toMatchObject({ code: 0 });
    expect(output).toHaveLength(20_000_004);
    expect(output.endsWith("end\n")).toBe(true);
  });
});

describe("what a step leaves in the background", () => {
  test("lives on for the steps after it, and is ended with the run", async () => {
    const { run, process, runner } = await bench();
    const { ending } = await run(`sleep 60 & ${NOTE}`);
    expect(ending).toMatchObject({ kind: "exited", code: 0 });
    const left = await process("pid");
    expect((await run("kill -0 $(cat pid)")).ending).toMatchObject({ code: 0 });
    expect(isUp(left)).toBe(true);
    expect(await runner.endAll()).toEqual({ ended: 1, survivors: [] });
    expect(isUp(left)).toBe(false);
  });

  test("does not hold up the step, though it holds its output; what it prints later is still read", async () => {
    const { run, printed, runner } = await bench();
    const server = "trap 'echo stopped; exit 0' TERM; until [ -e asked ]; do sleep 0.02; done; echo asked; cat fifo";
    const { ending } = await run(`mkfifo fifo; (${server}) & echo done`);
    expect(ending).toMatchObject({ code: 0 });
    expect(printed()).toBe("done\n");
    await run("touch asked");
    await runner.endAll();
    // Not what it says while it is being ended: that would not be the same from one run to the next.
    expect(printed()).toBe("done\nasked\n");
  });

  test("may print more than a pipe holds without being stopped by it", async () => {
    const { run, cwd } = await bench();
    await run("(head -c 3000000 /dev/zero; echo written > marker) &");
    expect((await run("until [ -e marker ]; do sleep 0.02; done")).ending).toMatchObject({ code: 0 });
    expect(await readFile(join(cwd, "marker"), "utf8")).toBe("written\n");
  });

  test.each([
    ["left its group", `setsid sleep 60 & ${NOTE}`],
    ["shed its environment", `env -i sleep 60 & ${NOTE}`],
    ["shed its environment and went away", `(cd / && exec env -i sleep 60) & ${NOTE}`],
    ["left its group and shed its environment", `setsid env -i sleep 60 & ${NOTE}`],
    ["left its group and went away", `(cd / && exec setsid sleep 60) & ${NOTE}`],
    ["does not listen to SIGTERM", `(trap '' TERM; exec sleep 60) & ${NOTE}`],
    ["is stopped", `sleep 60 & ${NOTE}; kill -STOP $!`],
  ])("is found and ended though it %s", async (_, script) => {
    const { run, process, runner } = await bench({ killGraceMs: 300 });
    await run(script);
    const left = await process("pid");
    expect(isUp(left)).toBe(true);
    const { survivors } = await runner.endAll();
    expect(survivors).toEqual([]);
    expect(isUp(left)).toBe(false);
  });

  test("of another run is left alone", async () => {
    const mine = await bench();
    const other = await bench();
    await other.run(`sleep 60 & ${NOTE}`);
    const left = await other.process("pid");
    await mine.runner.endAll();
    expect(isUp(left)).toBe(true);
  });
});

describe("time", () => {
  const limit = (ms: number, of: "step" | "run"): StepLimit => ({ ms, of, statedMs: ms });

  test("a step that is out of time is ended with its group, what was left before lives on", async () => {
    const { run, process } = await bench();
    await run(`sleep 60 & ${NOTE}`);
    const before = await process("pid");
    const { ending } = await run("sleep 60 & echo $! > child; wait", { limit: limit(1000, "step") });
    expect(ending).toEqual({ kind: "timed_out", limit: "step", limitMs: 1000 });
    expect(isUp(await process("child"))).toBe(false);
    expect(isUp(before)).toBe(true);
  });

  test("one that does not listen to SIGTERM is killed after the grace", async () => {
    const { run, process } = await bench({ killGraceMs: 200 });
    const started = performance.now();
    const { ending } = await run(`trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done`, {
      limit: limit(1000, "run"),
    });
    expect(ending).toEqual({ kind: "timed_out", limit: "run", limitMs: 1000 });
    expect(performance.now() - started).toBeGreaterThan(1150);
    expect(isUp(await process("pid"))).toBe(false);
  });

  test("one that catches SIGTERM and exits 0 is out of time all the same", async () => {
    const { run } = await bench();
    const { ending } = await run("trap 'exit 0' TERM; while :; do sleep 0.05; done", { limit: limit(300, "step") });
    expect(ending.kind).toBe("timed_out");
  });

  test("nothing is started when no time is left", async () => {
    const { run, cwd } = await bench();
    expect((await run("touch ran", { limit: limit(0, "run") })).ending.kind).toBe("timed_out");
    await expect(readFile(join(cwd, "ran"))).rejects.toThrow("ENOENT");
  });

  test("a run that is given up ends the step's group and throws the reason", async () => {
    const { run, process } = await bench();
    const abort = new AbortController();
    const running = run(`sleep 60 & ${NOTE}; wait`, { signal: abort.signal });
    let left: ProcessId | null = null;
    while (left === null)
      left = await process("pid").catch(() => new Promise((resolve) => setTimeout(() => resolve(null), 10)));
    abort.abort(new Error("the scheduler has gone"));
    await expect(running).rejects.toThrow("the scheduler has gone");
    expect(isUp(left)).toBe(false);
  });

  /** A check that would be made for days. */
  const endless = (url: string): PlanStep => {
    const request = { method: "GET", url, headers: {}, status: 200, body: null } as const;
    const http = { ...request, attempts: 1000, intervalMs: 60_000, timeoutMs: 1000 };
    return { kind: "http", name: "x", timeoutMs: null, http };
  };

  test("an http check is out of time like any other step", async () => {
    const { runner } = await bench();
    const step = endless("http://127.0.0.1:1/");
    const lines: string[] = [];
    const call = { step, onOutput: () => {}, onAttempt: (line: string) => lines.push(line) };
    const { signal } = new AbortController();
    expect(await runner.run({ ...call, signal, limit: limit(200, "run") })).toMatchObject({ kind: "timed_out" });
    expect(lines).toEqual(["attempt 1 of 1000: http://127.0.0.1:1/ refused the connection\n"]);
    const aborted = AbortSignal.abort(new Error("enough"));
    await expect(runner.run({ ...call, signal: aborted, limit: LONG })).rejects.toThrow("enough");
  });

  test.each(["step", "run"] as const)(
    "an http check that cannot ask is not the work's fault when the %s's time is over",
    async (of) => {
      const { runner } = await bench();
      const call = { step: endless("http://255.255.255.255:9/"), onOutput: () => {}, onAttempt: () => {} };
      const { signal } = new AbortController();
      const ending = await runner.run({ ...call, signal, limit: limit(300, of) });
      expect(judgeStep(ending)).toEqual({
        verdict: "tool_error",
        class: "routing",
        reason: expect.stringMatching(
          /^there is no way to http:\/\/255.255.255.255:9\/ \(E[A-Z]+\), until the time was over$/,
        ),
      });
    },
  );
});
