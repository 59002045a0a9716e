import { randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "@orchestrator/shared/clock.ts";
import { findMarked } from "@orchestrator/shared/process/find_processes.ts";
import { readProcess } from "@orchestrator/shared/process/proc_table.ts";
import { expect, test } from "vitest";
import type { RunLog } from "../../services/scheduler/run_log.ts";
import { until } from "../shared/process/real.ts";
import { AgentBench } from "./agent_bench.ts";

const bench = new AgentBench();
const clock = systemClock;

test("both outputs are in the log, and can be opened by name", async () => {
  const script = "echo one; echo two >&2; echo three > /dev/stdout; echo four > /dev/stderr";
  expect((await bench.outputOf(script)).trim().split("\n").sort()).toEqual(["four", "one", "three", "two"]);
});

test("arbitrary bytes arrive as they were", async () => {
  const bytes = randomBytes(2 * 1024 * 1024);
  writeFileSync(join(bench.cwd, "bytes"), bytes);
  await bench.outputOf("cat bytes");
  expect(readFileSync(bench.logPath).equals(bytes)).toBe(true);
});

test("300 MiB in lines of 10 MiB: beginning and end are kept, the log stays in its bounds, the memory too", async () => {
  const line = 10 * 1024 * 1024;
  let seen = 0;
  let settled = 0;
  let most = 0;
  const watched: RunLog = {
    path: bench.logPath,
    append: (chunk) => {
      seen += chunk.length;
      most = Math.max(most, process.memoryUsage().rss);
      // By now the runtime has taken what it likes to have.
      if (seen < 10 * line) settled = most;
      return bench.log.append(chunk);
    },
    drained: () => bench.log.drained(),
    close: () => bench.log.close(),
  };
  const agent = await bench.start(
    ["sh", "-c", `echo first; for i in $(seq 30); do head -c ${line} /dev/zero | tr "\\0" x; echo; done; echo last`],
    { log: watched },
  );
  await agent.exited;
  await agent.end(0);
  await bench.log.close();
  const text = readFileSync(bench.logPath, "latin1");
  expect(text.length).toBeLessThanOrEqual(8 * 1024 * 1024);
  expect(text).toMatch(/^first\nxxx/);
  expect(text).toMatch(/\n--- \d+ bytes of output dropped here -+\n/);
  expect(text).toMatch(/xxx\nlast\n$/);
  expect(most - settled).toBeLessThan(10 * line);
});

test("an agent that outruns the disk waits, and is not silent meanwhile", async () => {
  let taken = 0;
  let open = (): void => {};
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  let opened = false;
  const slow: RunLog = {
    path: bench.logPath,
    append: (chunk) => {
      taken += chunk.length;
      return opened;
    },
    drained: () => gate,
    close: async () => {},
  };
  const agent = await bench.start(["sh", "-c", "head -c 20000000 /dev/zero"], { log: slow });
  // The keeper, the shell and what the shell runs.
  const isBlocked = (): boolean =>
    findMarked(bench.marks).length === 3 && findMarked(bench.marks).every(({ pid }) => readProcess(pid)?.state === "S");
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
    path: bench.logPath,
    append: (chunk) => {
      taken += chunk.length;
      return false;
    },
    drained: () => new Promise((resolve) => setTimeout(resolve, 30)),
    close: async () => {},
  };
  const agent = await bench.start(["head", "-c", "400000", "/dev/zero"], { log: slow });
  await agent.exited;
  await agent.end(5000);
  expect(taken).toBe(400_000);
});

test("tells when it last came", async () => {
  const started = clock.monotonicMs();
  const agent = await bench.start([
    "sh",
    "-c",
    "read go < go.fifo || :; while ! [ -e go ]; do sleep 0.01; done; echo x; exec sleep 60",
  ]);
  const first = agent.lastOutputMs();
  expect(first).toBeGreaterThanOrEqual(started);
  await until(() => readFileSync(bench.logPath).length > 0 || clock.monotonicMs() > first + 20);
  const waiting = agent.lastOutputMs();
  writeFileSync(join(bench.cwd, "go"), "");
  await until(() => readFileSync(bench.logPath, "utf8").endsWith("x\n"));
  expect(agent.lastOutputMs()).toBeGreaterThan(waiting);
});
