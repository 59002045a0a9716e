import type { StagingEvent } from "@orchestrator/shared/schemas/staging_run.ts";
import { expect, test } from "vitest";
import { EventStream } from "../../services/stager/event_stream.ts";
import { eventsOf } from "./harness.ts";

const output = (text: string, name = "build"): StagingEvent => ({ event: "output", name, text });
const step = (name: string): StagingEvent => ({ event: "step", name, state: "started" });
const heartbeat: StagingEvent = { event: "heartbeat", at: "2030-01-02T03:04:05.000Z" };

const readAll = async (stream: EventStream): Promise<StagingEvent[]> => {
  const events: StagingEvent[] = [];
  for await (const event of eventsOf(stream.body)) events.push(event);
  return events;
};

test("gives what was pushed, in order, then ends", async () => {
  const stream = new EventStream(() => {});
  const reading = readAll(stream);
  stream.push(step("a"));
  await Promise.resolve();
  stream.push(output("one"));
  stream.push(output("two"));
  stream.end();
  stream.push(step("too late"));
  expect(await reading).toEqual([step("a"), output("one"), output("two")]);
});

test("drops output that nobody reads, says how much and of which step, and keeps every other event", async () => {
  const stream = new EventStream(() => {});
  const piece = "x".repeat(100_000);
  for (let i = 0; i < 5; i++) stream.push(output(piece, "build"));
  for (let i = 0; i < 3; i++) stream.push(output(piece, "test"));
  for (let i = 0; i < 50; i++) stream.push(step(`s${i}`));
  stream.push(output(piece, "last"));
  stream.end();
  const note = (bytes: number, name: string) =>
    output(`\n[${bytes} bytes of output were dropped here: they came faster than they were read]\n`, name);
  expect(await readAll(stream)).toEqual([
    ...[output(piece), output(piece), note(300_000, "build"), note(300_000, "test")],
    ...Array.from({ length: 50 }, (_, i) => step(`s${i}`)),
    note(100_000, "last"),
  ]);
});

test("takes output again when what waited has been read", async () => {
  const stream = new EventStream(() => {});
  const reader = eventsOf(stream.body);
  const piece = "x".repeat(200_000);
  for (let round = 0; round < 5; round++) {
    stream.push(output(piece));
    expect((await reader.next()).value).toEqual(output(piece));
  }
  stream.end();
  expect((await reader.next()).done).toBe(true);
});

test("one piece that is larger than all that may wait is not lost", async () => {
  const stream = new EventStream(() => {});
  stream.push(output("\0".repeat(65_536)));
  stream.end();
  expect(await readAll(stream)).toEqual([output("\0".repeat(65_536))]);
});

test("a heartbeat is not sent while other lines wait, and never twice", async () => {
  const stream = new EventStream(() => {});
  stream.push(heartbeat);
  for (let i = 0; i < 100; i++) stream.push(heartbeat);
  stream.push(step("a"));
  stream.push(heartbeat);
  stream.end();
  expect(await readAll(stream)).toEqual([heartbeat, step("a")]);
});

test("a reader that leaves is noticed once, also while it waits, and nothing is kept for it", async () => {
  let left = 0;
  const stream = new EventStream(() => {
    left += 1;
  });
  const reader = stream.body.getReader();
  const waiting = reader.read();
  await reader.cancel();
  expect(left).toBe(1);
  expect((await waiting).done).toBe(true);
  stream.push(step("a"));
  stream.end();
  expect(left).toBe(1);
});
