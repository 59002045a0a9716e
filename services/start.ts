import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { onSignals, runtimeArguments } from "@orchestrator/shared/serve.ts";

// Both services on one machine, as `npm start` runs them. They share nothing but the database and the mirrors, as they do
// in containers; when one of them ends, the other is ended as well, and the exit code is that of the one that ended first.

const SERVICES = ["scheduler", "stager"] as const;

const start = (service: (typeof SERVICES)[number]): ChildProcess =>
  // A group of its own: a Ctrl-C in the terminal reaches the services once, through the handler below.
  spawn(process.execPath, [...runtimeArguments(), fileURLToPath(new URL(`${service}/main.ts`, import.meta.url))], {
    stdio: ["ignore", "inherit", "inherit"],
    detached: true,
  });

const children = SERVICES.map(start);
const endAll = (signal: NodeJS.Signals): void => {
  for (const { pid, exitCode, signalCode } of children) {
    if (pid !== undefined && exitCode === null && signalCode === null) process.kill(pid, signal);
  }
};

onSignals(endAll, () => {
  endAll("SIGKILL");
  return 130;
});

const exits = children.map((child) => once(child, "exit") as Promise<[number | null, NodeJS.Signals | null]>);
const [code] = await Promise.race(exits);
endAll("SIGTERM");
await Promise.all(exits);
process.exit(code ?? 1);
