import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { onTestFinished } from "vitest";
import { writeConfigFile } from "./config_file.ts";
import { projectRoot, runtimeArgv } from "./runtime.ts";
import type { Site } from "./scheduler.ts";

export interface SchedulerProcess {
  pid: number;
  child: ChildProcess;
  /** What it has logged so far, one object a line. */
  lines: Record<string, unknown>[];
  /** Resolves with its address when it is ready; rejects when it ends instead. */
  ready: Promise<string>;
  exited: Promise<{ code: number | null; signal: string | null }>;
  /** Ends it at once, as a power cut would. */
  killHard(): Promise<void>;
}

/** Starts `services/scheduler/main.ts` as a process of its own on a site's folders; it is killed when the test has finished. */
export const startSchedulerProcess = async (
  site: Site,
  env: Record<string, string> = {},
): Promise<SchedulerProcess> => {
  const configPath = await writeConfigFile(site);
  const [command, ...args] = runtimeArgv("services/scheduler/main.ts");
  const child = spawn(command, args, {
    cwd: projectRoot,
    env: {
      PATH: process.env.PATH,
      HOME: site.folder,
      ORCH_DATA_DIR: site.config.dataDir,
      ORCH_CONFIG: configPath,
      ORCH_PORT: "0",
      ORCH_STAGER_PORT: "9",
      ORCH_STAGING_RUNNER_ENABLED: String(site.config.stagingRunnerEnabled),
      ORCH_DRAIN_MS: "0",
      ...env,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const lines: Record<string, unknown>[] = [];
  // `close` comes after the last output has been read, `exit` may come before it.
  const exited = once(child, "close").then(
    ([code, signal]) => ({ code, signal }) as Awaited<SchedulerProcess["exited"]>,
  );
  const ready = new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout! }).on("line", (line) => {
      const entry = JSON.parse(line) as Record<string, unknown>;
      lines.push(entry);
      if (entry.msg === "ready") resolve(`http://127.0.0.1:${entry.port}`);
    });
    void exited.then(({ code, signal }) =>
      reject(new Error(`ended with ${code ?? signal}: ${JSON.stringify(lines.at(-1))}`)),
    );
  });
  ready.catch(() => undefined);
  child.stderr!.on("data", (data: Buffer) => lines.push({ stderr: data.toString() }));
  const killHard = async () => {
    if (child.exitCode === null && child.signalCode === null) process.kill(child.pid!, "SIGKILL");
    await exited;
  };
  onTestFinished(killHard);
  return { pid: child.pid!, child, lines, ready, exited, killHard };
};
