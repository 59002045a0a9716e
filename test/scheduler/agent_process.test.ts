import { createHash, randomBytes } from "node:crypto";
import { chmodSync, existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "@orchestrator/shared/clock.ts";
import { findMarked } from "@orchestrator/shared/process/find_processes.ts";
import { isAlive, readProcess } from "@orchestrator/shared/process/proc_table.ts";
import { describe, expect, test } from "vitest";
import type { AgentOptions } from "../../services/scheduler/agent_process.ts";
import { MAX_PROMPT_ARGUMENT_BYTES } from "../../services/scheduler/command.ts";
import { until } from "../shared/process/real.ts";
import { AgentBench } from "./agent_bench.ts";

const bench = new AgentBench();

describe("start", () => {
  test("arguments go as they are, without a shell", async () => {
    const agent = await bench.start(["printf", "%s|", "$HOME", "a b", "; exit 1", "*", ""]);
    expect(await agent.exited).toEqual({ code: 0, signal: null });
    await agent.end(0);
    await bench.log.close();
    expect(readFileSync(bench.logPath, "utf8")).toBe("$HOME|a b|; exit 1|*||");
  });

  test("in its directory, with its environment and nothing else, in a group and session of its own", async () => {
    const agent = await bench.start(["sh", "-c", "pwd; env | sort; exec sleep 60"], {
      env: { ...bench.env(), OWN: "1" },
    });
    expect(readProcess(agent.pid)).toMatchObject({ pgid: agent.pid, session: agent.pid, started: agent.started });
    await until(() => readFileSync(bench.logPath, "utf8").includes("PATH="));
    expect((await agent.end(5000)).survivors).toEqual([]);
    expect(await agent.exited).toEqual({ code: null, signal: "SIGTERM" });
    const lines = readFileSync(bench.logPath, "utf8").trim().split("\n");
    expect(lines.filter((line) => !/^(PWD|_|OLDPWD|SHLVL)=/.test(line))).toEqual([
      bench.cwd,
      `ORCH_INSTANCE_ID=${bench.marks.instanceId}`,
      "ORCH_RUN_ID=7",
      "OWN=1",
      `PATH=${bench.env().PATH}`,
    ]);
  });

  test("as the first to go when memory runs out, with all that it starts, and the service not", async () => {
    const own = readFileSync("/proc/self/oom_score_adj", "utf8");
    const agent = await bench.start(["sh", "-c", "sleep 0.1; cat /proc/self/oom_score_adj"]);
    await agent.exited;
    await agent.end(0);
    await bench.log.close();
    expect(Number(readFileSync(bench.logPath, "utf8"))).toBeGreaterThanOrEqual(500);
    expect(readFileSync("/proc/self/oom_score_adj", "utf8")).toBe(own);
  });

  test("a program of the workspace is started by its path, under its own name", async () => {
    writeFileSync(join(bench.cwd, "agent.sh"), '#!/bin/sh\necho "own $0 $1"\n', { mode: 0o755 });
    const agent = await bench.start(["./agent.sh", "x"]);
    await agent.exited;
    await agent.end(0);
    await bench.log.close();
    expect(readFileSync(bench.logPath, "utf8")).toMatch(/^own .*agent\.sh x\n$/);
  });

  test.each<[string, () => Partial<AgentOptions>, string]>([
    ["a command that is nowhere in PATH", () => ({ argv: ["no-such-agent"] }), "command_not_found"],
    ["a path at which nothing is", () => ({ argv: ["./no-such-agent"] }), "command_not_found"],
    [
      "a command that is missing from the agent's own PATH",
      () => ({ argv: ["sh"], env: { PATH: bench.cwd } }),
      "command_not_found",
    ],
    ["a file without the right to execute", () => ({ argv: ["./plain"] }), "command_not_executable"],
    ["a directory", () => ({ argv: ["/tmp"] }), "command_not_executable"],
    ["a script whose interpreter is missing", () => ({ argv: ["./no-interpreter"] }), "command_not_executable"],
    ["a workspace that is missing", () => ({ cwd: join(bench.cwd, "missing") }), "workspace_missing"],
    ["a workspace that is a file", () => ({ cwd: join(bench.cwd, "plain") }), "workspace_missing"],
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
    writeFileSync(join(bench.cwd, "plain"), "#!/bin/sh\n", { mode: 0o644 });
    writeFileSync(join(bench.cwd, "no-interpreter"), "#!/no/such/interpreter\n");
    chmodSync(join(bench.cwd, "no-interpreter"), 0o755);
    await expect(bench.start(["true"], wrong())).rejects.toMatchObject({ name: "ToolError", code });
    expect(findMarked(bench.marks)).toEqual([]);
  });

  test.each([["{prompt}"], ["stdin"]])("a temporary folder that is missing is said so (%s)", async (arg) => {
    const tempFolder = join(bench.tempFolder, "missing");
    const starting = bench.start(["true", arg], { tempFolder });
    const message = expect.stringMatching(
      `^temporary files cannot be made in ${tempFolder} .ENOENT.*.: it must be a folder that this user may write to$`,
    );
    // Where the runtime makes pipes itself, only a prompt on standard input needs the folder.
    if (arg === "{prompt}" && "deno" in process.versions) await starting;
    else await expect(starting).rejects.toMatchObject({ name: "ToolError", code: "temporary_folder", message });
  });

  test("a start that fails leaves no file open", async () => {
    const before = readdirSync("/proc/self/fd").length;
    const argv = ["true", ...Array(40).fill("x".repeat(100_000))];
    for (let n = 0; n < 20; n += 1) await expect(bench.start(argv)).rejects.toThrow();
    // The runtime opens and closes some of its own.
    expect(readdirSync("/proc/self/fd").length - before).toBeLessThan(10);
  });

  test("a start that fails once the agent runs leaves no agent", async () => {
    // What is looked at right after the start cannot be, for want of a descriptor, say.
    const clock = {
      ...systemClock,
      monotonicMs: (): number => {
        expect(findMarked(bench.marks)).not.toEqual([]);
        throw Object.assign(new Error("too many open files"), { code: "EMFILE" });
      },
    };
    const before = readdirSync("/proc/self/fd").length;
    const started = bench.start(["sh", "-c", "trap '' TERM; sleep 60 & wait; sleep 60"], { clock });
    await expect(started).rejects.toThrow("too many open files");
    expect(findMarked(bench.marks)).toEqual([]);
    await expect.poll(() => readdirSync("/proc/self/fd").length - before).toBeLessThan(4);
  });

  test("an error of the environment does not tell its values", async () => {
    const error = await bench
      .start(["true"], { env: { ...bench.env(), TOKEN: "secret\0" } })
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "spawn_failed", message: expect.stringContaining("NUL") });
    expect(String((error as Error).stack) + String((error as Error).cause)).not.toContain("secret");
  });
});

describe("prompt", () => {
  const large = `${randomBytes(3 * 1024 * 1024).toString("base64")}\nschön\n`;
  const sha = createHash("sha256").update(large).digest("hex");

  test.each([["sha256sum"], ["sha256sum /dev/stdin"]])("of 4 MiB on standard input, read by %s", async (reader) => {
    expect(await bench.outputOf(reader, { prompt: large })).toContain(sha);
  });

  test("an agent that reads late gets all of it", async () => {
    expect(await bench.outputOf("sleep 0.2; sha256sum", { prompt: large })).toContain(sha);
  });

  test.each([[":"], ["exec <&-"], ["head -c 10 > /dev/null"]])(
    "an agent that does not want it (%s)",
    async (script) => {
      const agent = await bench.start(["sh", "-c", `${script}; exit 0`], {
        prompt: large,
      });
      expect(await agent.exited).toEqual({ code: 0, signal: null });
    },
  );

  test("in place of {prompt}; standard input is empty then", async () => {
    const prompt = "two\nlines $& 'quoted' €";
    const agent = await bench.start(["sh", "-c", 'printf "%s|" "$@"; cat', "sh", "{prompt}", "--p={prompt}"], {
      prompt,
    });
    await agent.exited;
    await agent.end(0);
    await bench.log.close();
    expect(readFileSync(bench.logPath, "utf8")).toBe(`${prompt}|--p=${prompt}|`);
  });

  test("of 100 KiB fits into an argument", async () => {
    const agent = await bench.start(["sh", "-c", 'printf %s "$1" | wc -c', "sh", "{prompt}"], {
      prompt: "x".repeat(MAX_PROMPT_ARGUMENT_BYTES),
    });
    await agent.exited;
    await agent.end(0);
    await bench.log.close();
    expect(readFileSync(bench.logPath, "utf8").trim()).toBe(String(MAX_PROMPT_ARGUMENT_BYTES));
  });
});

describe("exit", () => {
  test.each([
    ["exit 0", { code: 0, signal: null }],
    ["exit 3", { code: 3, signal: null }],
    // As a shell or a container engine says that what it ran was killed.
    ["exit 137", { code: null, signal: "SIGKILL" }],
    ["exit 255", { code: 255, signal: null }],
    ["exit 150", { code: 150, signal: null }],
    ["kill -9 $$", { code: null, signal: "SIGKILL" }],
    ["kill -SEGV $$", { code: null, signal: "SIGSEGV" }],
  ])("%s", async (script, expected) => {
    const agent = await bench.start(["sh", "-c", script]);
    expect(await agent.exited).toEqual(expected);
  });

  test("handlers are called in the moment in which the exit is seen, later ones at once", async () => {
    const agent = await bench.start(["sh", "-c", "exit 3"]);
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
    const agent = await bench.start(["sh", "-c", "sleep 60 & head -c 3000000 /dev/zero; echo end; exit 4"]);
    expect(await agent.exited).toEqual({ code: 4, signal: null });
    expect(findMarked(bench.marks)).toHaveLength(1);
    expect(await agent.end(5000)).toEqual({ ended: 1, survivors: [] });
    await bench.log.close();
    expect(readFileSync(bench.logPath).length).toBe(3_000_004);
  });

  test("what is left in the background is logged until it is ended", async () => {
    const agent = await bench.start(["sh", "-c", `(trap 'echo ended; exit' TERM; echo up; sleep 60 & wait) & exit 0`]);
    await agent.exited;
    await until(() => readFileSync(bench.logPath, "utf8").includes("up"));
    await agent.end(5000);
    await bench.log.close();
    expect(readFileSync(bench.logPath, "utf8")).toBe("up\nended\n");
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
    const agent = await bench.start(["sh", "-c", script]);
    await until(() => readFileSync(bench.logPath, "utf8") === "ready\n");
    const pids = ["daemon", "bare"].map((name) => Number(readFileSync(join(bench.cwd, name), "utf8")));
    const processes = pids.map((pid) => ({ pid, started: readProcess(pid)!.started }));
    expect((await agent.end(50)).survivors).toEqual([]);
    expect(await agent.exited).toEqual({ code: null, signal: "SIGKILL" });
    expect([...processes, agent].filter(({ pid, started }) => isAlive(pid, started))).toEqual([]);
    expect(await agent.end(50)).toEqual({ ended: 0, survivors: [] });
  });

  test("an abort cuts the grace short", async () => {
    const agent = await bench.start(["sh", "-c", `trap "" TERM; echo ready; while :; do sleep 1; done`]);
    await until(() => existsSync(bench.logPath) && readFileSync(bench.logPath, "utf8") === "ready\n");
    const abort = new AbortController();
    const ending = agent.end(3_600_000, abort.signal);
    abort.abort();
    expect((await ending).survivors).toEqual([]);
  });
});
