import { readFile } from "node:fs/promises";
import { systemClock } from "@orchestrator/shared/clock.ts";
import type { Config } from "@orchestrator/shared/config/config.ts";
import { createLog } from "@orchestrator/shared/log.ts";
import { noPoints } from "@orchestrator/shared/points.ts";
import { startScheduler } from "../../services/scheduler/scheduler.ts";

// A scheduler whose file database is guarded by its lease row, as one on a server would be. Its only argument is a file
// with the configuration as JSON. Says on standard output what it is: `scheduler <epoch>`, and why it ends.
const say = (line: string): void => void process.stdout.write(`${line}\n`);
const config = JSON.parse(await readFile(process.argv[2]!, "utf8")) as Config;
let stop = async (): Promise<void> => {};
try {
  const scheduler = await startScheduler({
    config,
    clock: systemClock,
    log: createLog({ level: config.logLevel, service: "scheduler", secrets: [] }),
    points: noPoints,
    random: () => 0,
    guardedBy: "lease",
    signal: new AbortController().signal,
    onFencedOff: (error) => {
      say(`fenced off: ${error.message}`);
      void stop().then(() => process.exit(75));
    },
  });
  stop = () => scheduler.stop();
  process.on("SIGTERM", () => void stop().then(() => process.exit(0)));
  say(`scheduler ${scheduler.context.storage.epoch}`);
} catch (error) {
  say(`refused: ${(error as Error).message}`);
  process.exit(75);
}
