import { createHash } from "node:crypto";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setImmediate } from "node:timers/promises";
import { serve } from "@orchestrator/shared/serve.ts";
import { expect, onTestFinished, test } from "vitest";
import type { ActiveRun } from "../../../services/scheduler/active_runs.ts";
import type { RunLog } from "../../../services/scheduler/run_log.ts";
import { deferred } from "../../helpers/deferred.ts";
import { SseReader } from "../../helpers/sse.ts";
import { countWaiting } from "./count_waiting.ts";
import { openSite, PASSED, type Site } from "./site.ts";

const CLIENTS_OF_A_KIND = 25;
const NEW_EVENTS = 200;
const READ_LOG_BYTES = 2 * 1024 * 1024;
// Of these each deaf client is owed far more than the kernel's buffers take: 15 MB of events, 24 MiB of log.
const OLD_EVENTS = 1500;
const OLD_REASON = "x".repeat(10_000);
const DEAF_LOG_BYTES = 24 * 1024 * 1024;
const MIB = 1024 * 1024;

/** The site behind a real server; `answered(n)` resolves when n requests have got their answer begun. */
const serveSite = async (site: Site) => {
  let n = 0;
  let wanted = Number.POSITIVE_INFINITY;
  const reached = deferred();
  const server = await serve({
    fetch: async (request) => {
      const answer = await site.app.fetch(request);
      n += 1;
      if (n >= wanted) reached.resolve();
      return answer;
    },
    host: "127.0.0.1",
    port: 0,
    onError: () => {},
  });
  onTestFinished(() => server.close(100));
  const answered = (count: number): Promise<void> => {
    wanted = count;
    if (n >= count) reached.resolve();
    return reached.promise;
  };
  return { server, url: `http://127.0.0.1:${server.port}`, answered };
};

/** A client that asks and never reads the answer. */
const deafClient = async (port: number, path: string): Promise<Socket> => {
  const socket = connect(port, "127.0.0.1");
  socket.pause();
  socket.on("error", () => {});
  onTestFinished(() => void socket.destroy());
  await once(socket, "connect");
  socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 0\r\n\r\n`);
  return socket;
};

const times = <T>(n: number, make: () => T): T[] => Array.from({ length: n }, make);

const writeEvents = ({ storage }: Site, n: number, reason = "a test"): Promise<void> =>
  storage.write(async (tx) => {
    for (let i = 0; i < n; i++) await tx.event("paused", { taskId: null }, { what: "all", reason });
  });

const LINE = Buffer.alloc(64 * 1024, "0123456789abcdef0123456789abcde\n");

/** Writes a log as an agent would that has much to say; gives the digest of it. */
const fillLog = async (log: RunLog, bytes: number): Promise<string> => {
  const hash = createHash("sha256");
  for (let done = 0; done < bytes; done += LINE.length) {
    hash.update(LINE);
    if (!log.append(LINE)) await log.drained();
  }
  return hash.digest("hex");
};

const openLog = async (site: Site): Promise<{ run: ActiveRun; log: RunLog }> => {
  const { run } = await site.claim();
  const { id, logPath } = run.claim.run;
  return { run, log: await site.context.runLogs.open(id, { path: logPath!, maxBytes: 2 * DEAF_LOG_BYTES }) };
};

/** Milliseconds for so many small writes, one after the other. */
const timeWrites = async (site: Site, n: number): Promise<number> => {
  const began = performance.now();
  for (let i = 0; i < n; i++) await writeEvents(site, 1);
  return performance.now() - began;
};

const memoryInUse = (): number => {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
};

/** Reads a log to its end: how long it was, and its digest. */
const readLog = async (answer: Response): Promise<{ bytes: number; digest: string }> => {
  const hash = createHash("sha256");
  let bytes = 0;
  for await (const chunk of answer.body!) {
    hash.update(chunk);
    bytes += chunk.length;
  }
  return { bytes, digest: hash.digest("hex") };
};

/** Reads so many events, and says which came out of order. */
const readEvents = async (answer: Response, after: number, n: number): Promise<number[]> => {
  const reader = new SseReader(answer);
  const found = await reader.take(n);
  await reader.leave();
  return found.map(({ id }) => id).filter((id, index) => id !== after + index + 1);
};

test("50 event streams and 50 log followers, half of them never reading: the memory stays, and nothing waits", async () => {
  const site = await openSite();
  await site.create("ORCH-1");
  await site.create("ORCH-2");
  const watched = await openLog(site);
  const deaf = await openLog(site);
  await fillLog(deaf.log, DEAF_LOG_BYTES);
  await deaf.log.drained();
  await writeEvents(site, OLD_EVENTS, OLD_REASON);
  const aloneMs = await timeWrites(site, NEW_EVENTS);
  const { server, url, answered } = await serveSite(site);
  const last = await site.api.events.lastId();
  const before = memoryInUse();

  await Promise.all(times(CLIENTS_OF_A_KIND, () => deafClient(server.port, "/events")));
  await Promise.all(times(CLIENTS_OF_A_KIND, () => deafClient(server.port, "/runs/2/log?follow=true")));
  const listening = times(CLIENTS_OF_A_KIND, () => fetch(`${url}/events`));
  const following = times(CLIENTS_OF_A_KIND, () => fetch(`${url}/runs/1/log?follow=true`));
  await answered(4 * CLIENTS_OF_A_KIND);

  const heard = listening.map(async (answer) => readEvents(await answer, last, NEW_EVENTS));
  const read = following.map(async (answer) => readLog(await answer));
  const [digest, togetherMs] = await Promise.all([
    fillLog(watched.log, READ_LOG_BYTES),
    timeWrites(site, NEW_EVENTS),
    fillLog(deaf.log, READ_LOG_BYTES),
  ]);
  // A job goes its way as if nobody looked on.
  expect(await site.settle(watched.run, PASSED)).toEqual({ kind: "settled", next: "advance" });
  expect((await site.claim()).claim.job.stage).toBe("architecture");
  await site.context.runLogs.close(1);

  expect(await Promise.all(heard)).toEqual(times(CLIENTS_OF_A_KIND, () => []));
  const whole = { bytes: READ_LOG_BYTES, digest };
  expect(await Promise.all(read)).toEqual(times(CLIENTS_OF_A_KIND, () => whole));
  // Kept in memory for those who do not read, it would be 600 MiB and more; what is seen here is mostly garbage not yet collected.
  expect((memoryInUse() - before) / MIB).toBeLessThan(250);
  expect(togetherMs).toBeLessThan(10 * aloneMs + 5000);
  await site.context.runLogs.close(2);
});

test("clients that go away are forgotten", async () => {
  const site = await openSite();
  const waiting = countWaiting(site.api);
  const { server, answered } = await serveSite(site);
  const clients = await Promise.all(times(5, () => deafClient(server.port, "/events")));
  await answered(5);
  while (waiting() < 5) await setImmediate();
  for (const client of clients) client.destroy();
  while (waiting() > 0) await setImmediate();
});

test("when the service stops the streams end, and the server closes without waiting for those who never read", async () => {
  const site = await openSite();
  const { server, url, answered } = await serveSite(site);
  await Promise.all(times(5, () => deafClient(server.port, "/events")));
  const listening = await Promise.all(times(5, () => fetch(`${url}/events`)));
  await answered(10);
  const ended = listening.map((answer) => answer.text());
  site.stopping.abort();
  await server.close(200);
  for (const text of await Promise.all(ended)) expect(text).toMatch(/^: events after 0\n/);
});
