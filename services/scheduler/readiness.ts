import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { freeBytes } from "@orchestrator/shared/disk_space.ts";
import { FencedOffError } from "@orchestrator/shared/storage/check_epoch.ts";
import { fileOfUrl, isFileUrl } from "@orchestrator/shared/storage/connection.ts";
import { probeWrite } from "@orchestrator/shared/storage/probe_write.ts";
import type { Dispatcher } from "./dispatcher.ts";
import type { RunContext } from "./run_context.ts";

/** Who asks whether the scheduler is ready is not kept waiting for a database that is not, in ms. */
const WRITE_LIMIT_MS = 2_000;

/** With less than this nothing can be counted on to be written, in bytes: a commit takes a few pages. */
const MIN_BYTES = 64 * 1024;

/**
 * Lock held, database writable, dispatcher running: the second is found out by a transaction that changes nothing.
 * @returns why the scheduler cannot do its work now; empty where it can.
 */
export const readiness = async (
  { config, storage, tenure }: Pick<RunContext, "config" | "storage" | "tenure">,
  dispatcher: Dispatcher,
): Promise<string[]> => {
  const reasons = dispatcher.running ? [] : ["the dispatcher is not running"];
  const fenceless = tenure.fault();
  if (fenceless !== null) reasons.push(fenceless);
  const writable = tenure
    .confirm()
    .then(() => storage.write(probeWrite))
    .then(() => null)
    .catch((error: unknown) => {
      const { message = error } = error as Partial<Error>;
      return error instanceof FencedOffError ? error.message : `the database cannot be written: ${message}`;
    });
  const late = sleep(WRITE_LIMIT_MS, `the database could not be written within ${WRITE_LIMIT_MS} ms`, { ref: false });
  const fault = await Promise.race([writable, late]);
  if (fault !== null) reasons.push(fault);
  else if (isFileUrl(config.dbUrl)) reasons.push(...(await faultsOfDisk(dirname(fileOfUrl(config.dbUrl)))));
  return reasons;
};

/** What changes nothing needs no room, and an open file no folder: the probe does not find out that they are missing. */
const faultsOfDisk = async (folder: string): Promise<string[]> => {
  try {
    return (await freeBytes(folder)) < MIN_BYTES
      ? ["the database cannot be written: the disk that it is on is full"]
      : [];
  } catch (error) {
    const { message = error } = error as Partial<Error>;
    return [`the folder of the database cannot be looked at: ${message}. Put it back, or mount what holds it`];
  }
};
