import { setImmediate } from "node:timers/promises";
import type { Committed } from "@orchestrator/shared/storage/committed.ts";
import { describe, expect, test } from "vitest";
import { EventFeed } from "../../../services/scheduler/event_feed.ts";
import { SseReader } from "../../helpers/sse.ts";
import { openTestStorage } from "../../helpers/storage.ts";
import { problemOf } from "../../shared/http/harness.ts";
import { countWaiting } from "./count_waiting.ts";
import { openSite, type Site } from "./site.ts";

const listen = async ({ app }: Pick<Site, "app">, query = "", headers: Record<string, string> = {}) => {
  const answer = await app.request(`/events${query}`, { headers });
  expect(answer.status).toBe(200);
  return new SseReader(answer);
};

/** Writes `n` events, as many transactions as there are in `n / inOne`. */
const write = async ({ storage }: Pick<Site, "storage">, n: number, inOne = n): Promise<void> => {
  for (let done = 0; done < n; done += inOne) {
    await storage.write(async (tx) => {
      for (let i = 0; i < inOne; i++) await tx.event("paused", { taskId: null }, { what: "all", reason: "a test" });
    });
  }
};

const ids = (from: number, count: number): number[] => Array.from({ length: count }, (_, n) => from + n);

test("the answer is a stream of events that nobody on the way keeps back", async () => {
  const { app } = await openSite();
  const { headers } = await app.request("/events");
  expect(headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
  expect(headers.get("cache-control")).toBe("no-store");
  expect(headers.get("x-accel-buffering")).toBe("no");
});

test("a message holds the id, the kind as its name and the row as its data", async () => {
  const site = await openSite();
  const answer = await site.app.request("/events");
  await site.create("ORCH-1");
  const reader = answer.body!.getReader();
  const read = async () => new TextDecoder().decode((await reader.read()).value);
  expect(await read()).toBe(": events after 0\nretry: 1000\n\n");
  const [row] = (await site.history(1)).events;
  const data = { id: 1, task_id: 1, job_id: null, run_id: null, at: row!.at, kind: "created", detail: row!.detail };
  expect(await read()).toBe(`id: 1\nevent: created\ndata: ${JSON.stringify(data)}\n\n`);
  await reader.cancel();
});

test("from now on: what was before is not sent", async () => {
  const site = await openSite();
  await write(site, 3);
  const events = await listen(site);
  await write(site, 2);
  expect((await events.take(2)).map(({ id }) => id)).toEqual([4, 5]);
  await events.leave();
});

test.each<[string, Record<string, string>, number]>([
  ["", { "last-event-id": "0" }, 1],
  ["", { "last-event-id": "3" }, 4],
  ["?last_event_id=0", {}, 1],
  ["?last_event_id=2", {}, 3],
  ["?last_event_id=1", { "last-event-id": "3" }, 4],
  ["", { "last-event-id": "5" }, 6],
  ["", { "last-event-id": "99" }, 6],
  ["", { "last-event-id": "" }, 6],
])("with %j and %j the first event of five and more is %i", async (query, headers, first) => {
  const site = await openSite();
  await write(site, 5);
  const events = await listen(site, query, headers);
  await write(site, 1);
  expect((await events.take(7 - first)).map(({ id }) => id)).toEqual(ids(first, 7 - first));
  await events.leave();
});

test.each<[string, Record<string, string>, string]>([
  ["", { "last-event-id": "x" }, "Last-Event-ID"],
  ["", { "last-event-id": "-1" }, "Last-Event-ID"],
  ["", { "last-event-id": "1.5" }, "Last-Event-ID"],
  ["", { "last-event-id": "9999999999999999" }, "Last-Event-ID"],
  ["?last_event_id=x", {}, "last_event_id"],
  ["?last-event-id=1", {}, "last-event-id"],
])("%j and %j are refused", async (query, headers, path) => {
  const { app } = await openSite();
  const { status, code, errors } = await problemOf(await app.request(`/events${query}`, { headers }));
  expect([status, code, errors!.map((error) => error.path)]).toEqual([422, "invalid_input", [path]]);
});

test("every event comes once and in order, from the database and from memory, while more are written", async () => {
  const site = await openSite();
  await write(site, 700);
  const readers = await Promise.all(
    [0, 1, 355, 443, 699].map(async (after) => ({
      after,
      events: await listen(site, `?last_event_id=${after}`),
    })),
  );
  const reading = readers.map(async ({ after, events }, n) => {
    const found: number[] = [];
    while (found.at(-1) !== 1000) {
      found.push((await events.next())!.id);
      if (found.length % (10 * (n + 1)) === 0) await setImmediate();
    }
    await events.leave();
    return { after, found };
  });
  await write(site, 300, 3);
  for (const { after, found } of await Promise.all(reading)) expect(found).toEqual(ids(after + 1, 1000 - after));
});

test("what a write took back is not told", async () => {
  const site = await openSite();
  const events = await listen(site);
  const failing = site.storage.write(async (tx) => {
    await tx.event("paused", { taskId: null }, {});
    throw new Error("taken back");
  });
  await expect(failing).rejects.toThrow("taken back");
  await write(site, 1);
  expect((await events.next())!.id).toBe(1);
  await events.leave();
});

test("a comment is sent where nothing happens for a while", async () => {
  const site = await openSite({ heartbeatMs: 5 });
  const events = await listen(site);
  for (let n = 0; n < 4; n++) await events.chunk();
  await write(site, 1);
  expect((await events.next())!.id).toBe(1);
  expect(events.comments).toBeGreaterThanOrEqual(4);
  await events.leave();
});

test("streams end when the service stops", async () => {
  const site = await openSite();
  const waiting = countWaiting(site.api);
  const events = await listen(site);
  const next = events.next();
  while (waiting() === 0) await setImmediate();
  site.stopping.abort();
  expect(await next).toBe(null);
  expect(waiting()).toBe(0);
  const late = await listen(site, "?last_event_id=0");
  expect(await late.next()).toBe(null);
});

test("a client that goes away leaves nothing behind", async () => {
  const site = await openSite();
  const waiting = countWaiting(site.api);
  const events = await listen(site);
  const next = events.next();
  while (waiting() === 0) await setImmediate();
  await events.leave();
  expect(await next).toBe(null);
  expect(waiting()).toBe(0);
});

test("a stream that the database fails is cut off, and the log says why", async () => {
  const site = await openSite();
  const events = await listen(site, "?last_event_id=0");
  site.storage.query = () => Promise.reject(new Error("the disk is gone"));
  await expect(events.next()).rejects.toThrow();
  expect(site.lines()).toContainEqual(expect.objectContaining({ level: "error", msg: "an event stream broke off" }));
});

describe("the feed", () => {
  test("reads no more than it was asked for, however far behind the reader is", async () => {
    const { storage } = await openTestStorage();
    await write({ storage }, 2000);
    const feed = new EventFeed(storage);
    await write({ storage }, 600);
    expect((await feed.after(0, 50)).map(({ id }) => id)).toEqual(ids(1, 50));
    expect((await feed.after(2590, 50)).map(({ id }) => id)).toEqual(ids(2591, 10));
    expect(await feed.after(2600, 50)).toEqual([]);
    expect(await feed.lastId()).toBe(2600);
  });

  test("asks the database nothing for readers that keep up", async () => {
    const { storage } = await openTestStorage();
    let queries = 0;
    const feed = new EventFeed({
      onCommitted: (listener) => storage.onCommitted(listener),
      query: (...args) => {
        queries += 1;
        return storage.query(...args);
      },
    });
    await write({ storage }, 10);
    queries = 0;
    for (let seen = 0; seen < 10; seen++) expect((await feed.after(seen, 1))[0]!.id).toBe(seen + 1);
    expect(queries).toBe(0);
  });

  test("keeps no gap: what may have been missed is read from the database", async () => {
    let tell: (committed: Committed) => void = () => {};
    const { storage } = await openTestStorage();
    await write({ storage }, 5);
    const all = await storage.query("SELECT id FROM task_events");
    expect(all).toHaveLength(5);
    const feed = new EventFeed({
      query: (...args) => storage.query(...args),
      onCommitted: (listener) => {
        tell = listener;
        return () => {};
      },
    });
    const event = (id: number) => ({
      id,
      taskId: null,
      jobId: null,
      runId: null,
      at: "",
      kind: "paused" as const,
      detail: {},
    });
    for (const id of [1, 5]) tell({ events: [event(id)] } as unknown as Committed);
    expect((await feed.after(1, 50)).map(({ id }) => id)).toEqual([2, 3, 4, 5]);
  });
});
