import { createHmac } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "@orchestrator/shared/clock.ts";
import { fetchErrorText } from "@orchestrator/shared/http/fetch_error.ts";
import { backoffMs } from "@orchestrator/shared/retry_delay.ts";
import type { Notification } from "@orchestrator/shared/schemas/notification.ts";
import type { Deliver, Delivery } from "./notifier.ts";

export interface UrlTarget {
  url: string;
  /** Signs the body; null: it goes unsigned. */
  secret: string | null;
  clock: Clock;
  /** From 0 to 1: the jitter of pauses. */
  random: () => number;
  /** For one answer, in ms. Default 10 s. */
  timeoutMs?: number;
  /** How often it is tried. Default 8, which with the pauses between them (1, 2, 4, 8, 16, 32, 60 s) takes about two minutes. */
  tries?: number;
  /** Default 1 s. */
  firstPauseMs?: number;
  /** Default 60 s. */
  longestPauseMs?: number;
  /** After so long, in ms, it is not tried again. Default 5 min. */
  giveUpAfterMs?: number;
}

const JITTER = 0.1;

/**
 * Posts notifications as JSON. Where the receiver cannot be reached, or says that it may be asked again, it is tried again
 * after a growing pause; a receiver may therefore see one twice, and knows it by its id. `X-Orchestrator-Signature` is
 * `sha256=` and the HMAC of the very bytes of the body. Redirects are not followed: what is told is not for just anyone.
 */
export const createUrlDelivery = (target: UrlTarget): Deliver => {
  const { url, secret, clock, random } = target;
  const {
    timeoutMs = 10_000,
    tries = 8,
    firstPauseMs = 1_000,
    longestPauseMs = 60_000,
    giveUpAfterMs = 300_000,
  } = target;
  return async function deliverToUrl(notification, signal): Promise<Delivery> {
    const body = JSON.stringify(notification);
    const headers = headersOf(notification, body, secret);
    const startedMs = clock.monotonicMs();
    for (let tried = 1; ; tried++) {
      const answer = await post(url, { headers, body, timeoutMs, signal });
      if (answer.kind === "accepted") return { kind: "delivered", tries: tried };
      const pauseMs = backoffMs(tried, firstPauseMs, longestPauseMs) * (1 + JITTER * random());
      const isOver = tried >= tries || clock.monotonicMs() - startedMs + pauseMs > giveUpAfterMs;
      if (answer.kind === "refused" || isOver) return { kind: "failed", tries: tried, reason: answer.reason };
      await sleep(pauseMs, undefined, { signal });
    }
  };
};

const headersOf = ({ on, id }: Notification, body: string, secret: string | null): Record<string, string> => ({
  "content-type": "application/json",
  "user-agent": "orchestrator",
  "x-orchestrator-event": on,
  "x-orchestrator-delivery": String(id),
  ...(secret === null ? {} : { "x-orchestrator-signature": signatureOf(body, secret) }),
});

/** The value of `X-Orchestrator-Signature` for a body. */
export const signatureOf = (body: string, secret: string): string =>
  `sha256=${createHmac("sha256", secret).update(body, "utf8").digest("hex")}`;

type PostAnswer = { kind: "accepted" } | { kind: "again" | "refused"; reason: string };

/** @throws the signal's reason once it is aborted. */
const post = async (
  url: string,
  o: { headers: Record<string, string>; body: string; timeoutMs: number; signal: AbortSignal },
): Promise<PostAnswer> => {
  const { headers, body, timeoutMs } = o;
  // One for each request, so that nothing of it stays with a signal that lives as long as the process.
  const request = new AbortController();
  const abort = (): void => request.abort();
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    abort();
  }, timeoutMs);
  o.signal.addEventListener("abort", abort);
  try {
    o.signal.throwIfAborted();
    const { signal } = request;
    const response = await fetch(url, { method: "POST", headers, body, redirect: "manual", signal });
    // What it has to say beyond its status is of no use here, and may have no end.
    await response.body?.cancel();
    return judge(response.status);
  } catch (error) {
    o.signal.throwIfAborted();
    const reason = isLate ? `no answer within ${timeoutMs} ms` : `no answer: ${describe(error, url)}`;
    return { kind: "again", reason };
  } finally {
    clearTimeout(timer);
    o.signal.removeEventListener("abort", abort);
  }
};

/** Whether another try can help: a receiver that is busy or broken may be well later, one that refuses will refuse again. */
const judge = (status: number): PostAnswer => {
  if (status >= 200 && status < 300) return { kind: "accepted" };
  if (status >= 300 && status < 400) {
    return {
      kind: "refused",
      reason: `answered ${status}, and redirects are not followed: set notify.url to where it leads`,
    };
  }
  const mayPass = status >= 500 || status === 408 || status === 425 || status === 429;
  return { kind: mayPass ? "again" : "refused", reason: `answered ${status}` };
};

/** Without the URL, whose path may be a secret. */
const describe = (error: unknown, url: string): string => {
  const { href, origin } = new URL(url);
  return fetchErrorText(error).replaceAll(href, origin).replaceAll(url, origin);
};
