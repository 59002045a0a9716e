import { Notifier } from "@orchestrator/shared/notifier.ts";
import { expect, test } from "vitest";

const never = new AbortController().signal;

test("all that wait are woken, once", async () => {
  const notifier = new Notifier();
  const waits = [notifier.wait({ signal: never }), notifier.wait({ signal: never, timeoutMs: 60_000 })];
  expect(notifier.waiting).toBe(2);
  notifier.notify();
  expect(notifier.waiting).toBe(0);
  expect(await Promise.all(waits)).toEqual([true, true]);
});

test("who begins to wait while others are woken waits for the next time", async () => {
  const notifier = new Notifier();
  let again: Promise<boolean> | undefined;
  const first = notifier.wait({ signal: never }).then(() => {
    again = notifier.wait({ signal: never });
  });
  notifier.notify();
  await first;
  expect(notifier.waiting).toBe(1);
  notifier.notify();
  expect(await again).toBe(true);
});

test("waiting ends when the time has passed", async () => {
  const notifier = new Notifier();
  expect(await notifier.wait({ signal: never, timeoutMs: 1 })).toBe(false);
  expect(notifier.waiting).toBe(0);
});

test("waiting ends when the signal is aborted, and does not begin after that", async () => {
  const notifier = new Notifier();
  const gone = new AbortController();
  const wait = notifier.wait({ signal: gone.signal });
  gone.abort();
  expect(await wait).toBe(false);
  expect(await notifier.wait({ signal: gone.signal })).toBe(false);
  expect(notifier.waiting).toBe(0);
});
