import { type AddressInfo, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { type Clock, isoTime, systemClock } from "@orchestrator/shared/clock.ts";
import { createLog } from "@orchestrator/shared/log.ts";
import { Connection } from "@orchestrator/shared/storage/connection.ts";
import { openStorage } from "@orchestrator/shared/storage/open.ts";
import { probeWrite } from "@orchestrator/shared/storage/probe_write.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";
import { readLease, takeLease } from "@orchestrator/shared/storage/take_lease.ts";
import { expect, onTestFinished, test, vi } from "vitest";
import { answerLimitMs, challenge, LeaseKeeper } from "../../services/scheduler/lease_keeper.ts";
import { startDatabaseServer } from "../helpers/database_server.ts";
import { FakeClock } from "../helpers/fake_clock.ts";
import { makeSite, postTask, startTestScheduler } from "../helpers/scheduler.ts";
import { tempFolder } from "../helpers/temp_folder.ts";

const log = createLog({ level: "silent", service: "scheduler", secrets: [] });
const REMOTE = { authToken: null, synchronous: "FULL", readOnly: false, busyLimitMs: 10_000 } as const;

test.each([
  [100, 3_000],
  [8_999, 3_000],
  [9_000, 3_000],
  [15_000, 5_000],
  [60_000, 20_000],
  [90_000, 30_000],
  [3_600_000, 30_000],
])("with %i ms to live for a lease a request is given %i ms", (ttlMs, expected) => {
  expect(answerLimitMs(ttlMs)).toBe(expected);
});

test("a request that a server takes and never answers is given up when its time is over", async () => {
  const sockets: Socket[] = [];
  const server = createServer((socket) => void sockets.push(socket));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const connection = new Connection({ ...REMOTE, url });
  onTestFinished(() => connection.close());
  connection.answerWithin(200);
  const askedAt = performance.now();
  const writing = connection.transaction((tx) => tx.run("DELETE FROM task_events"));
  await expect(writing).rejects.toMatchObject({ code: "storage_unreachable" });
  expect(performance.now() - askedAt).toBeLessThan(10_000);
  expect(sockets.length).toBeGreaterThan(0);
});

/**
 * The time that this process is given. Holder, challenger and server are all in it, so that none of them is late where a
 * loaded machine lets all of them stand still.
 */
const givenTime = (): Clock => {
  let givenMs = 0;
  let lookedMs = performance.now();
  const timer = setInterval(() => {
    const nowMs = performance.now();
    givenMs += Math.min(nowMs - lookedMs, 100);
    lookedMs = nowMs;
  }, 20);
  onTestFinished(() => clearInterval(timer));
  return { now: systemClock.now, monotonicMs: () => givenMs };
};

/** A database on a server, whose scheduler holds its lease while another stands by. */
const heldLease = async (ttlMs: number) => {
  const clock = givenTime();
  const server = await startDatabaseServer(join(await tempFolder(), "orchestrator.db"));
  const fencedOff = vi.fn();
  const { storage } = await openStorage(
    {
      ...{ url: server.url, authToken: null, synchronous: "FULL", clock, onFencedOff: fencedOff },
      answerLimitMs: answerLimitMs(ttlMs),
    },
    (writer) => takeLease(writer, { host: "holder", pid: 1, since: "" }, isoTime(clock.now() + ttlMs)),
  );
  const keeper = new LeaseKeeper({ storage, ttlMs, clock, log });
  const other = new Connection({ ...REMOTE, url: server.url });
  const stopping = new AbortController();
  const standby = challenge(other, {
    ...{ holder: { host: "standby", pid: 2, since: "" }, ttlMs, standby: true, clock, log },
    signal: stopping.signal,
  });
  standby.catch(() => undefined);
  onTestFinished(async () => {
    stopping.abort();
    await standby.catch(() => undefined);
    await keeper.stop();
    await storage.close();
    await other.close();
  });
  return { server, storage, other, fencedOff };
};

test.each([
  ["a write", true],
  ["the renewal", false],
])("a holder keeps its lease, although %s gets no answer and another stands by", async (_what, isWrite) => {
  const { server, storage, other, fencedOff } = await heldLease(9_000);
  // Nothing else is written but the renewals.
  server.loseNextWrite();
  if (isWrite) await expect(storage.write(probeWrite)).rejects.toMatchObject({ code: "storage_unreachable" });
  const renewals = new Set<string>();
  const renewed = async () => renewals.add((await readLease(other))!.expiresAt).size;
  await expect.poll(renewed, { timeout: 30_000 }).toBeGreaterThan(3);
  expect(await readLease(other)).toMatchObject({ epoch: 1 });
  expect(fencedOff).not.toHaveBeenCalled();
});

test("a renewal that took as long as a third of the time to live is followed by the next at once, one that failed soon is not", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const clock = new FakeClock();
  const asked: { resolve: (value: unknown) => void; reject: (error: Error) => void }[] = [];
  const storage = { write: () => new Promise((resolve, reject) => asked.push({ resolve, reject })) };
  const keeper = new LeaseKeeper({ storage: storage as unknown as Storage, ttlMs: 15_000, clock, log });
  const pass = async (ms: number) => {
    clock.advance(ms);
    await vi.advanceTimersByTimeAsync(ms);
  };
  await pass(5_000);
  expect(asked).toHaveLength(1);
  await pass(5_000);
  asked[0]!.reject(new Error("no answer"));
  await pass(0);
  expect(asked).toHaveLength(2);
  asked[1]!.reject(new Error("connection refused"));
  await pass(0);
  await pass(4_999);
  expect(asked).toHaveLength(2);
  await pass(1);
  expect(asked).toHaveLength(3);
  asked[2]!.resolve(undefined);
  const stopped = keeper.stop();
  asked.at(-1)!.resolve(undefined);
  await stopped;
});

test("a scheduler on a server says after a third of its lease's time to live that it gets no answer", async () => {
  const site = await makeSite();
  const server = await startDatabaseServer(join(site.folder, "orchestrator.db"));
  const scheduler = await startTestScheduler(site, { config: { dbUrl: server.url, leaseTtlMs: 9_000 } });
  await scheduler.stopClaiming();
  server.loseNextWrite();
  const askedAt = performance.now();
  await expect(postTask(scheduler, { workItemId: "ORCH-1" })).rejects.toMatchObject({ code: "storage_unreachable" });
  expect(performance.now() - askedAt).toBeLessThan(15_000);
  await postTask(scheduler, { workItemId: "ORCH-1" });
});
