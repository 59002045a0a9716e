import { setTimeout as sleep } from "node:timers/promises";
import type { Dispatcher } from "./dispatcher.ts";
import type { RunContext } from "./run_context.ts";
import type { Readiness } from "./scheduler_api.ts";

/** Who asks whether the scheduler is ready is not kept waiting for a database that is not, in ms. */
const WRITE_LIMIT_MS = 2_000;

/** Lock held, database writable, dispatcher running: the second is found out by a transaction that changes nothing. */
export const readiness = async (
  { storage, tenure }: Pick<RunContext, "storage" | "tenure">,
  dispatcher: Dispatcher,
): Promise<Readiness> => {
  const reasons = dispatcher.running ? [] : ["the dispatcher is not running"];
  const writable = tenure
    .confirm()
    .then(() => storage.write(async () => null))
    .catch((error: unknown) => `the database cannot be written: ${error instanceof Error ? error.message : error}`);
  const late = sleep(WRITE_LIMIT_MS, `the database could not be written within ${WRITE_LIMIT_MS} ms`, { ref: false });
  const fault = await Promise.race([writable, late]);
  if (fault !== null) reasons.push(fault);
  return { ready: reasons.length === 0, reasons };
};
