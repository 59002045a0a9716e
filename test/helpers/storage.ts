import { join } from "node:path";
import type { Clock } from "@orchestrator/shared/clock.ts";
import { isoTime, systemClock } from "@orchestrator/shared/clock.ts";
import type { FencedOffError } from "@orchestrator/shared/storage/check_epoch.ts";
import { openStorage } from "@orchestrator/shared/storage/open.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";
import { takeLease } from "@orchestrator/shared/storage/take_lease.ts";
import { onTestFinished } from "vitest";
import { tempFolder } from "./temp_folder.ts";

export interface OpenedStorage {
  storage: Storage;
  instanceId: string;
  path: string;
  url: string;
}

/** A storage on a real file, closed when the test has finished. */
export const openTestStorage = async (
  options: { path?: string; clock?: Clock; busyLimitMs?: number; onFencedOff?: (error: FencedOffError) => void } = {},
): Promise<OpenedStorage> => {
  const path = options.path ?? join(await tempFolder(), "orchestrator.db");
  const url = `file:${path}`;
  const clock = options.clock ?? systemClock;
  const { storage, instanceId } = await openStorage(
    {
      ...{ url, authToken: null, synchronous: "FULL", clock, busyLimitMs: options.busyLimitMs ?? 30_000 },
      onFencedOff: options.onFencedOff ?? (() => {}),
    },
    (writer) =>
      takeLease(writer, { host: "test", pid: process.pid, since: isoTime(clock.now()) }, isoTime(clock.now() + 15_000)),
  );
  onTestFinished(() => storage.close());
  return { storage, instanceId, path, url };
};
