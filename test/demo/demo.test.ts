import { spawn } from "node:child_process";
import { mkdtemp, readdir, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { findLeftovers, killLeftovers } from "./leftovers.ts";
import { ownRuntime, runtimeCommands } from "./runtimes.ts";

const TEST_TIMEOUT_MS = 90_000;
const script = fileURLToPath(new URL("demo.ts", import.meta.url));
const straightOn = ["analysis", "architecture", "development", "review", "testing", "deploy-staging", "deploy", "done"];

/** The demo's TMPDIR: whatever it leaves on the disk is found here, and whatever it leaves running carries this path. */
let directory: string;

beforeEach(async () => {
  directory = await realpath(await mkdtemp(join(tmpdir(), "demo-test-")));
});
afterEach(async () => {
  await killLeftovers(directory, 10_000);
  await rm(directory, { recursive: true });
});

/** Runs the demo on the runtime of this suite; `onLine` sees each line as it comes, and `"close"` closes its output. */
const runDemo = async (args: string[], onLine: (line: string, pid: number) => unknown = () => {}) => {
  const [program, ...rest] = runtimeCommands(ownRuntime()).typescript;
  const child = spawn(program, [...rest, script, ...args], {
    env: { PATH: process.env["PATH"], HOME: process.env["HOME"], TMPDIR: directory },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const code = new Promise<number | null>((resolve) => child.once("close", resolve));
  const lines: string[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    lines.push(line);
    if (onLine(line, child.pid!) === "close") break;
  }
  child.stdout.destroy();
  return { code: await code, output: lines.join("\n"), moves: movesIn(lines) };
};

/** The stages of the section `history`, in order. */
const movesIn = (lines: string[]): string[] => {
  const start = lines.indexOf("── history ──") + 1;
  const moves = lines.slice(start, lines.indexOf("", start)).map((line) => line.split(/ +/).slice(1));
  return [moves[0]?.[0] ?? "", ...moves.map(([, , to]) => to ?? "")];
};

const expectNothingLeft = async () => {
  expect(findLeftovers(directory)).toEqual([]);
  expect((await readdir(directory)).filter((name) => name.startsWith("orchestrator-demo-"))).toEqual([]);
};

test("a work item goes from analysis to done, and nothing is left", { timeout: TEST_TIMEOUT_MS }, async () => {
  const { code, output, moves } = await runDemo(["--runtime", ownRuntime()]);
  expect(code, output).toBe(0);
  expect(moves).toEqual(straightOn);
  expect(output).toContain("\nstaging_status: SUCCESS\n");
  expect(output).toMatch(/"staging_runner": \{\s+"runs": 1,\s+"success": 1,/);
  await expectNothingLeft();
});

test("what fails in staging goes back, is mended and reaches done", { timeout: TEST_TIMEOUT_MS }, async () => {
  const { code, output, moves } = await runDemo(["--runtime", ownRuntime(), "--fail-staging"]);
  expect(code, output).toBe(0);
  const staging = straightOn.indexOf("deploy-staging");
  expect(moves).toEqual([...straightOn.slice(0, staging + 1), ...straightOn.slice(straightOn.indexOf("development"))]);
  expect(output).toMatch(/deploy-staging .*sent back → development/);
  expect(output).toMatch(/"staging_runner": \{\s+"runs": 2,\s+"success": 1,\s+"failed": 1,/);
  await expectNothingLeft();
});

test("an interrupted demo leaves nothing", { timeout: TEST_TIMEOUT_MS }, async () => {
  const { code, output } = await runDemo(["--runtime", ownRuntime()], (line, pid) => {
    if (line.includes("→ architecture")) process.kill(pid, "SIGINT");
  });
  expect(code, output).toBe(130);
  expect(output).toContain("interrupted by SIGINT");
  await expectNothingLeft();
});

test("a demo that nobody listens to any more leaves nothing", { timeout: TEST_TIMEOUT_MS }, async () => {
  const { code } = await runDemo(["--runtime", ownRuntime()], (line) => line.includes("→ architecture") && "close");
  expect(code).toBe(1);
  await expectNothingLeft();
});

test("a demo whose scheduler dies says what happened and leaves nothing", { timeout: TEST_TIMEOUT_MS }, async () => {
  const { code, output } = await runDemo(["--runtime", ownRuntime()], (line) => {
    if (!line.includes("→ architecture")) return;
    const scheduler = findLeftovers(directory).find(({ command }) => command.includes("scheduler/main.ts"));
    process.kill(scheduler!.pid, "SIGKILL");
  });
  expect(code, output).toBe(1);
  expect(output).toContain("the scheduler ended with signal SIGKILL");
  expect(output).toContain("── last lines of the scheduler ──");
  await expectNothingLeft();
});
