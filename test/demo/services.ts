import { spawn } from "node:child_process";
import { open, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";

/** A service that takes longer than this to end is killed, and that is a failure of the demo. */
const STOP_WITHIN_MS = 20_000;
const READY_POLL_MS = 50;

export type ServiceName = "scheduler" | "stager";

export interface Service {
  name: ServiceName;
  url: string;
  /** Resolves when `/readyz` answers 200; rejects when the service ends instead, or on abort. */
  ready(signal: AbortSignal): Promise<void>;
  /** Settles with what it ended with, in words; null while it runs. */
  ended(): string | null;
  /** SIGTERM, and SIGKILL to its process group after a while. Gives what it ended with, in words: `exit code 0`. */
  stop(): Promise<string>;
  /** The last lines of its log. */
  lastLines(count: number): Promise<string[]>;
}

/**
 * Starts a service as a process of its own, in its own process group so that a Ctrl-C in the terminal reaches it only
 * through the demo. Its output goes to `<directory>/<name>.log`.
 */
export const startService = async (options: {
  name: ServiceName;
  /** Program and arguments that run a TypeScript file. */
  command: readonly [string, ...string[]];
  port: number;
  directory: string;
  env: Record<string, string>;
}): Promise<Service> => {
  const { name, command, port, directory, env } = options;
  const url = `http://127.0.0.1:${port}`;
  const main = fileURLToPath(new URL(`../../services/${name}/main.ts`, import.meta.url));
  const logPath = join(directory, `${name}.log`);
  const log = await open(logPath, "a");
  const [program, ...args] = command;
  const child = spawn(program, [...args, main], {
    cwd: directory,
    env,
    detached: true,
    stdio: ["ignore", log.fd, log.fd],
  });
  let ending: string | null = null;
  const exited = new Promise<string>((resolve) => {
    const end = (text: string) => {
      ending ??= text;
      resolve(ending);
    };
    child.once("error", (error) => end(`not started: ${error.message}`));
    child.once("exit", (code, signal) => end(code === null ? `signal ${signal}` : `exit code ${code}`));
  });
  await log.close();

  // Not child.kill(): after it Deno reports the signal as the ending of a process that exited by itself.
  const send = (target: "process" | "group", signal: NodeJS.Signals) => {
    if (ending === null && child.pid !== undefined) process.kill(target === "group" ? -child.pid : child.pid, signal);
  };

  return {
    name,
    url,
    ended: () => ending,
    async ready(signal) {
      while (!(await answersReady(url, signal))) {
        if (ending !== null) throw new Error(`the ${name} ended before it was ready: ${ending}`);
        await delay(READY_POLL_MS, undefined, { signal });
      }
    },
    async stop() {
      send("process", "SIGTERM");
      const timer = setTimeout(() => send("group", "SIGKILL"), STOP_WITHIN_MS);
      try {
        return await exited;
      } finally {
        clearTimeout(timer);
      }
    },
    async lastLines(count) {
      return (await readFile(logPath, "utf8")).trimEnd().split("\n").slice(-count);
    },
  };
};

const answersReady = async (url: string, signal: AbortSignal): Promise<boolean> => {
  try {
    const response = await fetch(`${url}/readyz`, { signal });
    await response.body?.cancel();
    return response.ok;
  } catch (error) {
    // Not listening yet looks different on each runtime: any failure that is not the abort is "not yet".
    signal.throwIfAborted();
    if (!(error instanceof TypeError)) throw error;
    return false;
  }
};
