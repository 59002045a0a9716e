import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { onTestFinished } from "vitest";
import { projectRoot, runtimeArgv } from "./runtime.ts";

export interface ServiceProcess {
  pid: number;
  child: ChildProcess;
  /** Resolves when it has ended and all its output is read. */
  ended: Promise<ServiceEnding>;
}

export interface ServiceEnding {
  code: number | null;
  signal: string | null;
  /** What it logged, one object a line. */
  log: { level: string; msg: string }[];
  stdout: string;
  stderr: string;
}

export interface ServiceOptions {
  /** All of its environment but PATH, which it has unless it is given here. */
  env: Record<string, string>;
  args?: readonly string[];
  /** Takes the power to write anywhere from a process that runs as root. */
  heedPermissions?: boolean;
}

/** Root may write whatever the permissions of a file say; without these powers it is a user like any other. */
const DROP_POWERS = [
  "setpriv",
  ...["--bounding-set", "-dac_override,-dac_read_search"],
  ...["--inh-caps", "-dac_override,-dac_read_search"],
] as const;

/** Starts a program of this project as a process of its own; it is killed when the test has finished. */
export const startService = (
  file: string,
  { env, args = [], heedPermissions = false }: ServiceOptions,
): ServiceProcess => {
  const powers = heedPermissions && process.getuid?.() === 0 ? DROP_POWERS : [];
  const [program, ...rest] = [...powers, ...runtimeArgv(file), ...args] as [string, ...string[]];
  const child = spawn(program, rest, {
    cwd: projectRoot,
    env: { PATH: process.env.PATH, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const output = { stdout: "", stderr: "" };
  child.stdout!.setEncoding("utf8").on("data", (text: string) => {
    output.stdout += text;
  });
  child.stderr!.setEncoding("utf8").on("data", (text: string) => {
    output.stderr += text;
  });
  // `close` comes after the last output has been read, `exit` may come before it.
  const ended = once(child, "close").then(([code, signal]) => ({
    code,
    signal,
    ...output,
    log: parseLog(output.stdout),
  }));
  onTestFinished(async () => {
    if (child.exitCode === null && child.signalCode === null) process.kill(child.pid!, "SIGKILL");
    await ended;
  });
  return { pid: child.pid!, child, ended };
};

const parseLog = (stdout: string): ServiceEnding["log"] =>
  stdout
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as ServiceEnding["log"][number]);
