import { createHmac } from "node:crypto";
import { createServer } from "node:net";
import { systemClock } from "@orchestrator/shared/clock.ts";
import { describe, expect, test } from "vitest";
import { createUrlDelivery, signatureOf, type UrlTarget } from "../../../services/scheduler/notify_url.ts";
import { NOTIFICATION, startReceiver } from "./receiver.ts";

const deliver = (url: string, over: Partial<UrlTarget> = {}, signal = new AbortController().signal) =>
  createUrlDelivery({
    ...{ url, secret: null, clock: systemClock, random: () => 0, firstPauseMs: 1, longestPauseMs: 4 },
    ...over,
  })(NOTIFICATION, signal);

test("is posted as JSON, with what it is in the headers", async () => {
  const receiver = await startReceiver();
  expect(await deliver(receiver.url)).toEqual({ kind: "delivered", tries: 1 });
  const [request] = receiver.received;
  expect(request).toMatchObject({
    method: "POST",
    path: "/hook/the-secret-path",
    headers: {
      "content-type": "application/json",
      "user-agent": "orchestrator",
      "x-orchestrator-event": "blocked",
      "x-orchestrator-delivery": "41",
    },
  });
  expect(JSON.parse(request!.body)).toEqual(NOTIFICATION);
  expect(request!.headers).not.toHaveProperty("x-orchestrator-signature");
});

test("the signature is the HMAC of the very bytes that arrive", async () => {
  const receiver = await startReceiver();
  await deliver(receiver.url, { secret: "the secret – ä" });
  const { headers, body } = receiver.received[0]!;
  const expected = createHmac("sha256", "the secret – ä").update(Buffer.from(body, "utf8")).digest("hex");
  expect(headers["x-orchestrator-signature"]).toBe(`sha256=${expected}`);
});

test("the signature of a known text", () => {
  // RFC 4231, test case 2.
  expect(signatureOf("what do ya want for nothing?", "Jefe")).toBe(
    "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
  );
});

describe("a receiver that may be well later is asked again", () => {
  test.each([500, 502, 503, 504, 408, 425, 429])("answered %i", async (status) => {
    const receiver = await startReceiver((response, n) => response.writeHead(n < 3 ? status : 200).end());
    expect(await deliver(receiver.url)).toEqual({ kind: "delivered", tries: 3 });
    expect(new Set(receiver.received.map(({ body }) => body)).size).toBe(1);
  });

  test("cut off in the midst of the answer", async () => {
    const receiver = await startReceiver((response, n) => {
      if (n === 1) response.socket!.destroy();
      else response.end();
    });
    expect(await deliver(receiver.url)).toEqual({ kind: "delivered", tries: 2 });
  });

  test("silent for too long", async () => {
    const receiver = await startReceiver((response, n) => {
      if (n > 1) response.end();
    });
    expect(await deliver(receiver.url, { timeoutMs: 100 })).toEqual({ kind: "delivered", tries: 2 });
  });

  test("only so often", async () => {
    const receiver = await startReceiver((response) => response.writeHead(503).end());
    expect(await deliver(receiver.url, { tries: 4 })).toEqual({ kind: "failed", tries: 4, reason: "answered 503" });
    expect(receiver.received).toHaveLength(4);
  });

  test("only for so long", async () => {
    const receiver = await startReceiver((response) => response.writeHead(503).end());
    const pauses = { firstPauseMs: 20, longestPauseMs: 20, giveUpAfterMs: 70, tries: 1000 };
    const delivery = await deliver(receiver.url, pauses);
    expect(delivery).toMatchObject({ kind: "failed", reason: "answered 503" });
    expect(delivery.tries).toBeGreaterThanOrEqual(1);
    expect(delivery.tries).toBeLessThanOrEqual(4);
  });

  test("after pauses that grow, with up to a tenth more", async () => {
    const receiver = await startReceiver((response) => response.writeHead(503).end());
    const startedMs = performance.now();
    await deliver(receiver.url, { tries: 4, firstPauseMs: 20, longestPauseMs: 50, random: () => 1 });
    // 22 + 44 + 55
    expect(performance.now() - startedMs).toBeGreaterThanOrEqual(119);
  });
});

describe("a receiver that refuses is not asked again", () => {
  test.each([400, 401, 403, 404, 405, 410, 413, 422])("answered %i", async (status) => {
    const receiver = await startReceiver((response) => response.writeHead(status).end());
    expect(await deliver(receiver.url)).toEqual({ kind: "failed", tries: 1, reason: `answered ${status}` });
    expect(receiver.received).toHaveLength(1);
  });

  test.each([301, 302, 303, 307, 308])("answered %i: where it leads is not asked", async (status) => {
    const elsewhere = await startReceiver();
    const receiver = await startReceiver((response) => response.writeHead(status, { location: elsewhere.url }).end());
    expect(await deliver(receiver.url)).toEqual({
      kind: "failed",
      tries: 1,
      reason: `answered ${status}, and redirects are not followed: set notify.url to where it leads`,
    });
    expect(elsewhere.received).toEqual([]);
  });
});

test("an answer without an end is not waited for", async () => {
  const receiver = await startReceiver((response) => response.writeHead(200).write("and then"));
  expect(await deliver(receiver.url, { timeoutMs: 30_000 })).toEqual({ kind: "delivered", tries: 1 });
});

test("nobody listening: the reason does not show the path, which may be a secret", async () => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  const delivery = await deliver(`http://127.0.0.1:${port}/the-secret-path`, { tries: 2 });
  expect(delivery).toMatchObject({ kind: "failed", tries: 2, reason: expect.stringMatching(/^no answer: .*refused/i) });
  expect(JSON.stringify(delivery)).not.toContain("secret");
});

describe("an end of the scheduler", () => {
  test("ends a request that is under way", async () => {
    const receiver = await startReceiver(() => {});
    const stop = new AbortController();
    const delivering = deliver(receiver.url, {}, stop.signal);
    await receiver.whenReceived(1);
    stop.abort(new Error("stops"));
    await expect(delivering).rejects.toThrow("stops");
  });

  test("ends a pause", async () => {
    const receiver = await startReceiver((response) => response.writeHead(503).end());
    const stop = new AbortController();
    const delivering = deliver(
      receiver.url,
      { firstPauseMs: 3_600_000, longestPauseMs: 3_600_000, giveUpAfterMs: 1e9 },
      stop.signal,
    );
    await receiver.whenReceived(1);
    stop.abort(new Error("stops"));
    await expect(delivering).rejects.toThrow();
  });
});
