import { createHash, randomBytes, randomUUID } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "@orchestrator/shared/clock.ts";
import { findMarked } from "@orchestrator/shared/process/find_processes.ts";
import { isAlive, readProcess } from "@orchestrator/shared/process/proc_table.ts";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type AgentOptions, type AgentProcess, startAgent } from "../../services/scheduler/agent_process.ts";
import { MAX_PROMPT_ARGUMENT_BYTES } from "../../services/scheduler/command.ts";
import { openRunLog, type RunLog } from "../../services/scheduler/run_log.ts";
import { tempFolder, until } from "../shared/process/real.ts";

const clock = systemClock;
const PATH = "/usr/local/bin:/usr/bin:/bin";

let cwd: string;
let logPath: string;
let marks: { instanceId: string; runId: number };
let log: RunLog;
let agents: AgentProcess[];
let temporary: string | undefined;

beforeEach(async () => {
  const folder = tempFolder();
  cwd = join(folder, "workspace");
  mkdirSync(cwd);
  logPath = join(folder, "7.log");
  marks = { instanceId: randomUUID(), runId: 7 };
  log = await openRunLog({ path: logPath, maxBytes: 8 * 1024 * 1024 });
  agents = [];
  // So that a test can see what is left there.
  temporary = process.env.TMPDIR;
  process.env.TMPDIR = join(folder, "tmp");
  mkdirSync(process.env.TMPDIR);
});

afterEach(async () => {
  for (const agent of agents) await agent.end(0);
  await log.close();
  expect(readdirSync(process.env.TMPDIR!)).toEqual([]);
  if (temporary === undefined) delete process.env.TMPDIR;
  else process.env.TMPDIR = temporary;
});

const env = (): Record<string, string> => ({ PATH, ORCH_INSTANCE_ID: marks.instanceId, ORCH_RUN_ID: "7" });

const start = async (argv: string[], options: Partial<AgentOptions> = {}): Promise<AgentProcess> => {
  const agent = await startAgent({ argv, prompt: "the prompt\n", cwd, env: env(), log, clock, ...options });
  agents.push(agent);
  return agent;
};

/** Runs `sh -c script` as an agent to its end, and gives what it wrote. */
const outputOf = async (script: string, options: Partial<AgentOptions> = {}): Promise<string> => {
  const agent = await start(["sh", "-c", script], options);
  await agent.exited;
  await agent.end(5000);
  await log.close();
  return readFileSync(logPath, "utf8");
};

describe("start", () => {
  test("arguments go as they are, without a shell", async () => {
    const agent = await start(["printf", "%s|", "$HOME", "a b", "; exit 1", "*", ""]);
    expect(await agent.exited).toEqual({ code: 0, signal: null });
    await agent.end(0);
    await log.close();
    expect(readFileSync(logPath, "utf8")).toBe("$HOME|a b|; exit 1|*||");
  });

  test("in its directory, with its environment and nothing else, in a group and session of its own", async () => {
    const agent = await start(["sh", "-c", "pwd; env | sort; exec sleep 60"], { env: { ...env(), OWN: "1" } });
    expect(readProcess(agent.pid)).toMatchObject({ pgid: agent.pid, session: agent.pid, started: agent.started });
    await until(() => readFileSync(logPath, "utf8").includes("PATH="));
    expect((await agent.end(5000)).survivors).toEqual([]);
    expect(await agent.exited).toEqual({ code: null, signal: "SIGTERM" });
    const lines = readFileSync(logPath, "utf8").trim().split("\n");
    expect(lines.filter((line) => !/^(PWD|_|OLDPWD|SHLVL)=/.test(line))).toEqual([
      cwd,
      `ORCH_INSTANCE_ID=${marks.instanceId}`,
      "ORCH_RUN_ID=7",
      "OWN=1",
      `PATH=${PATH}`,
    ]);
  });

  test("a program of the workspace is started by its path, under its own name", async () => {
    writeFileSync(join(cwd, "agent.sh"), '#!/bin/sh\necho "own $0 $1"\n', { mode: 0o755 });
    const agent = await start(["./agent.sh", "x"]);
    await agent.exited;
    await agent.end(0);
    await log.close();
    expect(readFileSync(logPath, "utf8")).toMatch(/^own .*agent\.sh x\n$/);
  });

  test.each<[string, () => Partial<AgentOptions>, string]>([
    ["a command that is nowhere in PATH", () => ({ argv: ["no-such-agent"] }), "command_not_found"],
    ["a path at which nothing is", () => ({ argv: ["./no-such-agent"] }), "command_not_found"],
    [
      "a command that is missing from the agent's own PATH",
      () => ({ argv: ["sh"], env: { PATH: cwd } }),
      "command_not_found",
    ],
    ["a file without the right to execute", () => ({ argv: ["./plain"] }), "command_not_executable"],
    ["a directory", () => ({ argv: ["/tmp"] }), "command_not_executable"],
    ["a script whose interpreter is missing", () => ({ argv: ["./no-interpreter"] }), "command_not_executable"],
    ["a workspace that is missing", () => ({ cwd: join(cwd, "missing") }), "workspace_missing"],
    ["a workspace that is a file", () => ({ cwd: join(cwd, "plain") }), "workspace_missing"],
    ["a NUL in an argument", () => ({ argv: ["true", "a\0b"] }), "spawn_failed"],
    [
      "arguments that are too large together",
      () => ({ argv: ["true", ...Array(40).fill("x".repeat(100_000))] }),
      "spawn_failed",
    ],
    [
      "a prompt that is too large for an argument",
      () => ({ argv: ["true", "{prompt}"], prompt: "x".repeat(MAX_PROMPT_ARGUMENT_BYTES + 1) }),
      "prompt_too_large",
    ],
  ])("%s", async (_, wrong, code) => {
    writeFileSync(join(cwd, "plain"), "#!/bin/sh\n", { mode: 0o644 });
    writeFileSync(join(cwd, "no-interpreter"), "#!/no/such/interpreter\n");
    chmodSync(join(cwd, "no-interpreter"), 0o755);
    await expect(start(["true"], wrong())).rejects.toMatchObject({ name: "ToolError", code });
    expect(findMarked(marks)).toEqual([]);
    // No file stays open: once more takes no more of them.
    const files = readdirSync("/proc/self/fd").length;
    await expect(start(["true"], wrong())).rejects.toMatchObject({ code });
    expect(readdirSync("/proc/self/fd").length).toBeLessThanOrEqual(files);
  });

  test("an error of the environment does not tell its values", async () => {
    const error = await start(["true"], { env: { ...env(), TOKEN: "secret\0" } }).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "spawn_failed", message: expect.stringContaining("NUL") });
    expect(String((error as Error).stack) + String((error as Error).cause)).not.toContain("secret");
  });
});

describe("prompt", () => {
  const large = `${randomBytes(3 * 1024 * 1024).toString("base64")}\nschön\n`;
  const sha = createHash("sha256").update(large).digest("hex");

  test.each([["sha256sum"], ["sha256sum /dev/stdin"]])("of 4 MiB on standard input, read by %s", async (reader) => {
    expect(await outputOf(reader, { prompt: large })).toContain(sha);
  });

  test("an agent that reads late gets all of it", async () => {
    expect(await outputOf("sleep 0.2; sha256sum", { prompt: large })).toContain(sha);
  });

  test.each([[":"], ["exec <&-"], ["head -c 10 > /dev/null"]])(
    "an agent that does not want it (%s)",
    async (script) => {
      const agent = await start(["sh", "-c", `${script}; exit 0`], {
        prompt: large,
      });
      expect(await agent.exited).toEqual({ code: 0, signal: null });
    },
  );

  test("in place of {prompt}; standard input is empty then", async () => {
    const prompt = "two\nlines $& 'quoted' €";
    const agent = await start(["sh", "-c", 'printf "%s|" "$@"; cat', "sh", "{prompt}", "--p={prompt}"], { prompt });
    await agent.exited;
    await agent.end(0);
    await log.close();
    expect(readFileSync(logPath, "utf8")).toBe(`${prompt}|--p=${prompt}|`);
  });

  test("of 100 KiB fits into an argument", async () => {
    const agent = await start(["sh", "-c", 'printf %s "$1" | wc -c', "sh", "{prompt}"], {
      prompt: "x".repeat(MAX_PROMPT_ARGUMENT_BYTES),
    });
    await agent.exited;
    await agent.end(0);
    await log.close();
    expect(readFileSync(logPath, "utf8").trim()).toBe(String(MAX_PROMPT_ARGUMENT_BYTES));
  });
});

describe("exit", () => {
  test.each([
    ["exit 0", { code: 0, signal: null }],
    ["exit 3", { code: 3, signal: null }],
    ["exit 137", { code: 137, signal: null }],
    ["kill -9 $$", { code: null, signal: "SIGKILL" }],
    ["kill -SEGV $$", { code: null, signal: "SIGSEGV" }],
  ])("%s", async (script, expected) => {
    const agent = await start(["sh", "-c", script]);
    expect(await agent.exited).toEqual(expected);
  });

  test("handlers are called in the moment in which the exit is seen, later ones at once", async () => {
    const agent = await start(["sh", "-c", "exit 3"]);
    const order: string[] = [];
    agent.onExit(({ code }) => {
      order.push(`first ${code}`);
      queueMicrotask(() => order.push("microtask"));
    });
    agent.onExit(() => order.push("second"));
    await agent.exited;
    expect(order.slice(0, 2)).toEqual(["first 3", "second"]);
    agent.onExit(() => order.push("late"));
    expect(order.at(-1)).toBe("late");
  });

  test("is not held up by what keeps the output open, and no output is lost", async () => {
    const agent = await start(["sh", "-c", "sleep 60 & head -c 3000000 /dev/zero; echo end; exit 4"]);
    expect(await agent.exited).toEqual({ code: 4, signal: null });
    expect(findMarked(marks)).toHaveLength(1);
    expect(await agent.end(5000)).toEqual({ ended: 1, survivors: [] });
    await log.close();
    expect(readFileSync(logPath).length).toBe(3_000_004);
  });

  test("what is left in the background is logged until it is ended", async () => {
    const agent = await start(["sh", "-c", `(trap 'echo ended; exit' TERM; echo up; sleep 60 & wait) & exit 0`]);
    await agent.exited;
    await until(() => readFileSync(logPath, "utf8").includes("up"));
    await agent.end(5000);
    await log.close();
    expect(readFileSync(logPath, "utf8")).toBe("up\nended\n");
  });
});

describe("output", () => {
  test("both outputs are in the log, and can be opened by name", async () => {
    const script = "echo one; echo two >&2; echo three > /dev/stdout; echo four > /dev/stderr";
    expect((await outputOf(script)).trim().split("\n").sort()).toEqual(["four", "one", "three", "two"]);
  });

  test("arbitrary bytes arrive as they were", async () => {
    const bytes = randomBytes(2 * 1024 * 1024);
    writeFileSync(join(cwd, "bytes"), bytes);
    const seen: number[] = [];
    await outputOf("cat bytes", { onOutput: (chunk) => seen.push(chunk.length) });
    expect(readFileSync(logPath).equals(bytes)).toBe(true);
    expect(seen.reduce((a, b) => a + b, 0)).toBe(bytes.length);
  });

  test("100 MiB in lines of 10 MiB: beginning and end are kept, the log stays in its bounds, the memory too", async () => {
    const before = process.memoryUsage().rss;
    let most = 0;
    const agent = await start(
      [
        "sh",
        "-c",
        `echo first; for i in 1 2 3 4 5 6 7 8 9 10; do head -c 10485760 /dev/zero | tr "\\0" x; echo; done; echo last`,
      ],
      {
        onOutput: () => {
          most = Math.max(most, process.memoryUsage().rss - before);
        },
      },
    );
    await agent.exited;
    await agent.end(0);
    await log.close();
    const text = readFileSync(logPath, "latin1");
    expect(text.length).toBeLessThanOrEqual(8 * 1024 * 1024);
    expect(text).toMatch(/^first\nxxx/);
    expect(text).toMatch(/\n--- \d+ bytes of output dropped here -+\n/);
    expect(text).toMatch(/xxx\nlast\n$/);
    expect(most).toBeLessThan(80 * 1024 * 1024);
  });

  test("an agent that outruns the disk waits, and is not silent meanwhile", async () => {
    let taken = 0;
    let open = (): void => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    let opened = false;
    const slow: RunLog = {
      path: logPath,
      failed: null,
      append: (chunk) => {
        taken += chunk.length;
        return opened;
      },
      drained: () => gate,
      close: async () => {},
    };
    const agent = await start(["sh", "-c", "head -c 20000000 /dev/zero"], { log: slow });
    const isBlocked = (): boolean =>
      findMarked(marks).length === 2 && findMarked(marks).every(({ pid }) => readProcess(pid)?.state === "S");
    await until(() => taken > 0 && isBlocked());
    expect(taken).toBeLessThan(2 * 1024 * 1024);
    expect(clock.monotonicMs() - agent.lastOutputMs()).toBeLessThan(5);
    opened = true;
    open();
    expect(await agent.exited).toEqual({ code: 0, signal: null });
    await agent.end(0);
    expect(taken).toBe(20_000_000);
  });

  test("after the end all that was written is in the log's hands, however slow that is", async () => {
    let taken = 0;
    const slow: RunLog = {
      path: logPath,
      failed: null,
      append: (chunk) => {
        taken += chunk.length;
        return false;
      },
      drained: () => new Promise((resolve) => setTimeout(resolve, 30)),
      close: async () => {},
    };
    const agent = await start(["head", "-c", "400000", "/dev/zero"], { log: slow });
    await agent.exited;
    await agent.end(5000);
    expect(taken).toBe(400_000);
  });

  test("tells when it last came", async () => {
    const started = clock.monotonicMs();
    const agent = await start([
      "sh",
      "-c",
      "read go < go.fifo || :; while ! [ -e go ]; do sleep 0.01; done; echo x; exec sleep 60",
    ]);
    const first = agent.lastOutputMs();
    expect(first).toBeGreaterThanOrEqual(started);
    await until(() => readFileSync(logPath).length > 0 || clock.monotonicMs() > first + 20);
    const waiting = agent.lastOutputMs();
    writeFileSync(join(cwd, "go"), "");
    await until(() => readFileSync(logPath, "utf8").endsWith("x\n"));
    expect(agent.lastOutputMs()).toBeGreaterThan(waiting);
  });
});

describe("end", () => {
  test("ends what ignores SIGTERM, what left the group, and what only stands in the workspace", async () => {
    const script = `
      trap "" TERM
      setsid sh -c 'echo $$ > daemon; exec sleep 60' &
      setsid env -i sh -c 'echo $$ > bare; exec sleep 60' &
      while ! [ -s daemon ] || ! [ -s bare ]; do sleep 0.01; done
      echo ready; while :; do sleep 1; done`;
    const agent = await start(["sh", "-c", script]);
    await until(() => readFileSync(logPath, "utf8") === "ready\n");
    const pids = ["daemon", "bare"].map((name) => Number(readFileSync(join(cwd, name), "utf8")));
    const processes = pids.map((pid) => ({ pid, started: readProcess(pid)!.started }));
    expect((await agent.end(50)).survivors).toEqual([]);
    expect(await agent.exited).toEqual({ code: null, signal: "SIGKILL" });
    expect([...processes, agent].filter(({ pid, started }) => isAlive(pid, started))).toEqual([]);
    expect(await agent.end(50)).toEqual({ ended: 0, survivors: [] });
  });

  test("an abort cuts the grace short", async () => {
    const agent = await start(["sh", "-c", `trap "" TERM; echo ready; while :; do sleep 1; done`]);
    await until(() => existsSync(logPath) && readFileSync(logPath, "utf8") === "ready\n");
    const abort = new AbortController();
    const ending = agent.end(3_600_000, abort.signal);
    abort.abort();
    expect((await ending).survivors).toEqual([]);
  });
});
