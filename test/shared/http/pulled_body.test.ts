import { pulledBody } from "@orchestrator/shared/http/pulled_body.ts";
import { expect, test } from "vitest";

/** A body of numbers, and what has become of it. */
const numbers = (n = Number.POSITIVE_INFINITY) => {
  const stopping = new AbortController();
  const seen = { made: 0, closed: false, errors: [] as unknown[], signal: null as AbortSignal | null };
  const body = pulledBody(
    async function* (signal) {
      seen.signal = signal;
      try {
        while (seen.made < n && !signal.aborted) yield new Uint8Array([seen.made++]);
      } finally {
        seen.closed = true;
      }
    },
    { stopping: stopping.signal, onError: (error) => seen.errors.push(error) },
  );
  return { body, seen, stopping };
};

test("is made whole", async () => {
  const { body, seen } = numbers(5);
  expect([...new Uint8Array(await new Response(body).arrayBuffer())]).toEqual([0, 1, 2, 3, 4]);
  expect(seen.closed).toBe(true);
  expect(seen.signal!.aborted).toBe(true);
});

test("is begun by the first read, and makes one chunk for each", async () => {
  const { body, seen } = numbers();
  await new Promise(setImmediate);
  expect([seen.made, seen.signal]).toEqual([0, null]);
  const reader = body.getReader();
  for (let n = 1; n <= 3; n++) {
    await reader.read();
    await new Promise(setImmediate);
    expect(seen.made).toBe(n);
  }
  await reader.cancel();
});

test("ends with its reader", async () => {
  const { body, seen } = numbers();
  const reader = body.getReader();
  await reader.read();
  await reader.cancel();
  expect([seen.closed, seen.signal!.aborted, seen.made]).toEqual([true, true, 1]);
});

test("ends with the service, also where it had not begun", async () => {
  const { body, seen, stopping } = numbers();
  const reader = body.getReader();
  await reader.read();
  stopping.abort();
  expect(await reader.read()).toEqual({ done: true, value: undefined });
  expect(seen.closed).toBe(true);

  const late = numbers();
  late.stopping.abort();
  expect(await new Response(late.body).text()).toBe("");
});

test("is cut off by an error, of which somebody is told", async () => {
  const errors: unknown[] = [];
  const failure = new Error("the disk is gone");
  const body = pulledBody(
    // biome-ignore lint/correctness/useYield: it fails before it has anything
    async function* () {
      throw failure;
    },
    { stopping: new AbortController().signal, onError: (error) => errors.push(error) },
  );
  await expect(new Response(body).text()).rejects.toThrow();
  expect(errors).toEqual([failure]);
});
