import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { onSignals, runtimeArguments } from "@orchestrator/shared/serve.ts";

// Both services on one machine, as `npm start` runs them. They share nothing but the database and the mirrors, as they do
// in containers; when one of them ends, the other is ended as well. The exit code is the first that is not 0.

const SERVICES = ["scheduler", "stager"] as const;

/** How a service ended: one of code and signal is null. */
interface Ending {
  service: (typeof SERVICES)[number];
  code: number | null;
  signal: NodeJS.Signals | null;
}

const start = (service: Ending["service"]): { child: ChildProcess; ended: Promise<Ending> } => {
  const main = fileURLToPath(new URL(`${service}/main.ts`, import.meta.url));
  // A group of its own: a Ctrl-C in the terminal reaches the services once, through the handler below.
  const child = spawn(process.execPath, [...runtimeArguments(), main], {
    stdio: ["ignore", "inherit", "inherit"],
    detached: true,
  });
  return { child, ended: once(child, "exit").then(([code, signal]) => ({ service, code, signal })) };
};

const services = SERVICES.map(start);
const asked = new Set<ChildProcess>();

/** Asks each service once: to one that is stopping already, a second signal means that it should stop at once. */
const endAll = (): void => {
  for (const { child } of services) {
    if (asked.has(child) || child.pid === undefined || child.exitCode !== null || child.signalCode !== null) continue;
    asked.add(child);
    process.kill(child.pid, "SIGTERM");
  }
};

const killAll = (): void => {
  for (const { child } of services) {
    if (child.pid !== undefined && child.exitCode === null && child.signalCode === null)
      process.kill(child.pid, "SIGKILL");
  }
};

onSignals(endAll, () => {
  killAll();
  return 130;
});

const first = await Promise.race(services.map(({ ended }) => ended));
if (asked.size === 0) {
  const how = first.signal === null ? `with exit code ${first.code}` : `by ${first.signal}`;
  process.stderr.write(`the ${first.service} ended ${how}; ending the other service as well\n`);
}
endAll();
const endings = [first, ...(await Promise.all(services.map(({ ended }) => ended)))];
process.exit(endings.map(({ code }) => code ?? 1).find((code) => code !== 0) ?? 0);
