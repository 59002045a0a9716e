import { ChangeSignal } from "@orchestrator/shared/change_signal.ts";
import { expect, test } from "vitest";

const never = new AbortController().signal;

test("all that wait are woken, once", async () => {
  const signal = new ChangeSignal();
  const waits = [signal.wait({ signal: never }), signal.wait({ signal: never, timeoutMs: 60_000 })];
  expect(signal.waiting).toBe(2);
  signal.notify();
  expect(signal.waiting).toBe(0);
  expect(await Promise.all(waits)).toEqual([true, true]);
});

test("who begins to wait while others are woken waits for the next time", async () => {
  const signal = new ChangeSignal();
  let again: Promise<boolean> | undefined;
  const first = signal.wait({ signal: never }).then(() => {
    again = signal.wait({ signal: never });
  });
  signal.notify();
  await first;
  expect(signal.waiting).toBe(1);
  signal.notify();
  expect(await again).toBe(true);
});

test("waiting ends when the time has passed", async () => {
  const signal = new ChangeSignal();
  expect(await signal.wait({ signal: never, timeoutMs: 1 })).toBe(false);
  expect(signal.waiting).toBe(0);
});

test("waiting ends when the signal is aborted, and does not begin after that", async () => {
  const signal = new ChangeSignal();
  const gone = new AbortController();
  const wait = signal.wait({ signal: gone.signal });
  gone.abort();
  expect(await wait).toBe(false);
  expect(await signal.wait({ signal: gone.signal })).toBe(false);
  expect(signal.waiting).toBe(0);
});
