import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { projectRoot, runtimeArgv } from "../helpers/runtime.ts";
import type { CrashSite } from "./site.ts";

export type ServiceName = "scheduler" | "stager";

/** A line that a service logged. */
export interface LogLine {
  level: string;
  msg: string;
  [key: string]: unknown;
}

export interface CrashService {
  name: ServiceName;
  pid: number;
  /** Wall-clock time, to be compared with what the database says. */
  startedAtMs: number;
  /** Resolves with the milliseconds from its start until it is ready; null where it ends before. */
  ready: Promise<number | null>;
  ended: Promise<{ code: number | null; signal: string | null }>;
  /** Null while it lives. */
  ending(): { code: number | null; signal: string | null } | null;
  /** What it logged as a warning or worse. */
  complaints: LogLine[];
  /** The end of all that it wrote, for the report of a violation. */
  tail: string[];
  send(signal: NodeJS.Signals): void;
}

const TAIL_LINES = 60;

/** Starts a service in a session of its own; with `fault` it kills itself there. */
export const startService = (site: CrashSite, name: ServiceName, fault: string | null): CrashService => {
  const [program, ...args] = runtimeArgv(`services/${name}/main.ts`);
  const startedAtMs = Date.now();
  const child = spawn(program, args, {
    cwd: projectRoot,
    env: { ...site.env, TMPDIR: site.tempDirs[name], ...(fault !== null && { ORCH_FAULT_POINT: fault }) },
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let ending: ReturnType<CrashService["ending"]> = null;
  const ended = once(child, "exit").then(([code, signal]: (number | string | null)[]) => {
    ending = { code: code as number | null, signal: signal as string | null };
    return ending;
  });
  const service: CrashService = {
    name,
    pid: child.pid!,
    startedAtMs,
    ready: readyIn(child, ended, (line) => note(service, line)),
    ended,
    ending: () => ending,
    complaints: [],
    tail: [],
    // Not child.kill(): after it Deno reports the signal as the ending of a process that exited by itself.
    send: (signal) => void (ending === null && process.kill(child.pid!, signal)),
  };
  createInterface({ input: child.stderr! }).on("line", (line) => note(service, line));
  return service;
};

const readyIn = (child: ChildProcess, ended: Promise<unknown>, onLine: (line: string) => void): CrashService["ready"] =>
  new Promise((resolve) => {
    const began = performance.now();
    createInterface({ input: child.stdout! }).on("line", (line) => {
      onLine(line);
      if (line.includes('"msg":"ready"')) resolve(performance.now() - began);
    });
    void ended.then(() => resolve(null));
  });

const note = (service: CrashService, text: string): void => {
  service.tail.push(text);
  if (service.tail.length > TAIL_LINES) service.tail.shift();
  const line = parse(text);
  if (!["debug", "info"].includes(line.level)) service.complaints.push(line);
};

const parse = (text: string): LogLine => {
  try {
    return JSON.parse(text) as LogLine;
  } catch (error) {
    // What a runtime writes in its own words, or a line that the kill cut.
    if (error instanceof SyntaxError) return { level: "fatal", msg: text };
    throw error;
  }
};

/** How long the runtime takes to run a file with nothing in it, in ms: what no service can start without. */
export const bareStartMs = async (): Promise<number> => {
  const [program, ...args] = runtimeArgv("test/crash/fixtures/bare.ts");
  const began = performance.now();
  await once(spawn(program, args, { cwd: projectRoot, stdio: "ignore" }), "exit");
  return performance.now() - began;
};
