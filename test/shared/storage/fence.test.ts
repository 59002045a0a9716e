import { FencedOffError } from "@orchestrator/shared/storage/check_epoch.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";
import { expect, test } from "vitest";
import { insertTaskWithJob } from "../../helpers/insert.ts";
import { openTestStorage } from "../../helpers/storage.ts";

const fencedOffStorage = async () => {
  const told: FencedOffError[] = [];
  const { storage, path } = await openTestStorage({ onFencedOff: (error) => void told.push(error) });
  await storage.checkFence();
  await insertTaskWithJob(storage, { workItemId: "ORCH-1" });
  expect(told).toEqual([]);
  await openTestStorage({ path });
  return { storage, told };
};

const WAYS: Record<string, (storage: Storage) => Promise<unknown>> = {
  "a write": (storage) => insertTaskWithJob(storage, { workItemId: "ORCH-2" }),
  "a write that would change nothing": (storage) => storage.write(async () => undefined),
  "several writes at once": (storage) =>
    Promise.all(["ORCH-2", "ORCH-3"].map((workItemId) => insertTaskWithJob(storage, { workItemId }))),
  "a look at the fence": (storage) => storage.checkFence(),
};

test.each(Object.keys(WAYS))("%s finds a newer epoch: it is refused, and the process hears of it", async (way) => {
  const { storage, told } = await fencedOffStorage();
  await expect(WAYS[way]!(storage)).rejects.toBeInstanceOf(FencedOffError);
  expect(told).toMatchObject([{ message: expect.stringContaining("epoch 1, the database is at epoch 2") }]);
});

test("however many find it, the process hears of it once", async () => {
  const { storage, told } = await fencedOffStorage();
  for (const way of Object.values(WAYS)) await expect(way(storage)).rejects.toBeInstanceOf(FencedOffError);
  expect(told.length).toBe(1);
});
