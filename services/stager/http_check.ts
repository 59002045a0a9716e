import { lookup as systemLookup } from "node:dns";
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import type { LookupFunction } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { fillIn, fillInUrl, type Placeholders } from "./placeholders.ts";
import type { HttpCheck } from "./plan.ts";
import { watchLookup } from "./watched_lookup.ts";

/** What lies between the stager and the work: an answer of such a kind says nothing about the work. */
const BETWEEN = ["name_resolution", "routing", "certificate", "local"] as const;

/** What one attempt came to; `reason` is a sentence without times, `excerpt` the beginning of a wrong answer's body. */
export interface HttpAnswer {
  kind: "right" | "refused" | "reset" | "slow" | "wrong" | (typeof BETWEEN)[number];
  reason: string;
  excerpt?: string;
}

/** How a check ended: with its last attempt's answer, or because its time was over (`answer`: see `answerAtLimit`). */
export type HttpCheckEnd =
  | { kind: "answered"; answer: HttpAnswer }
  | { kind: "out_of_time"; answer: HttpAnswer | null };

/** An attempt that was stopped from outside. */
interface StoppedAttempt {
  kind: "stopped";
  /** For how long it had been waiting for the host's address; null where it was not. */
  resolvingMs: number | null;
}

const MAX_EXCERPT_BYTES = 1000;

/** A healthy name server answers far sooner, in ms. */
const UNRESOLVED_MS = 1000;

/** A request made from a check: nothing in it is a placeholder any more. */
interface HttpRequest {
  url: URL;
  /** The URL as it may be shown: credentials and query left out. */
  shown: string;
  method: string;
  headers: Record<string, string>;
  status: number;
  body: Buffer | null;
  timeoutMs: number;
}

/**
 * Asks until the answer is right or the attempts are used up. Redirects are not followed, a proxy in the environment is not
 * used: what is checked is what answers at that very address.
 * @param limit aborts when the check's time is over. Default: it has all the time it needs.
 * @param onAttempt told of each attempt, for the log.
 * @param lookup resolves the host's name. Default: as the operating system does.
 * @throws the signal's reason when it aborts.
 */
export const checkHttp = async (options: {
  check: HttpCheck;
  placeholders: Placeholders;
  signal: AbortSignal;
  limit?: AbortSignal;
  onAttempt: (attempt: number, answer: HttpAnswer) => void;
  lookup?: LookupFunction;
}): Promise<HttpCheckEnd> => {
  const { check, placeholders, signal, limit, onAttempt, lookup = systemLookup as LookupFunction } = options;
  const stop = AbortSignal.any(limit === undefined ? [signal] : [signal, limit]);
  const url = fillInUrl(check.url, placeholders);
  if (!URL.canParse(url)) return { kind: "answered", answer: { kind: "wrong", reason: `${url} is not a URL` } };
  const request = toRequest(check, new URL(url), placeholders);
  let last: HttpAnswer | null = null;
  for (let attempt = 1; ; attempt++) {
    const answer = await askOnce(request, stop, lookup);
    if (answer.kind === "stopped") {
      signal.throwIfAborted();
      return { kind: "out_of_time", answer: answerAtLimit(last, answer.resolvingMs, request) };
    }
    onAttempt(attempt, answer);
    if (answer.kind === "right" || attempt >= check.attempts) return { kind: "answered", answer };
    last = answer;
    // Stopped here, the next attempt is told at once.
    await sleep(check.intervalMs, undefined, { signal: stop }).catch(() => {});
  }
};

/**
 * What a check came to whose time was over before it had made all its attempts: the last answer, where that says that the
 * host could not be asked. Null: the time is all that can be said, and that is the work's.
 * @param resolvingMs for how long the attempt that was stopped had been waiting for the host's address. It counts only where
 * there is no answer yet: otherwise the moment at which the limit comes would decide.
 */
export const answerAtLimit = (
  last: HttpAnswer | null,
  resolvingMs: number | null,
  { shown }: Pick<HttpRequest, "shown">,
): HttpAnswer | null => {
  if (last !== null) {
    const isBetween = BETWEEN.some((kind) => kind === last.kind);
    return isBetween ? { ...last, reason: `${last.reason}, until the time was over` } : null;
  }
  return resolvingMs !== null && resolvingMs >= UNRESOLVED_MS
    ? { kind: "name_resolution", reason: `the host of ${shown} was not resolved in time` }
    : null;
};

const toRequest = (check: HttpCheck, url: URL, placeholders: Placeholders): HttpRequest => ({
  url,
  shown: `${url.origin}${url.pathname}`,
  method: check.method,
  headers: {
    accept: "*/*",
    "accept-encoding": "identity",
    "user-agent": "orchestrator-staging-runner",
    ...Object.fromEntries(
      Object.entries(check.headers).map(([name, value]) => [
        name.toLowerCase(),
        utf8Header(fillIn(value, placeholders)),
      ]),
    ),
  },
  status: check.status,
  body: check.body === null ? null : Buffer.from(fillIn(check.body, placeholders)),
  timeoutMs: check.timeoutMs,
});

/** Headers go out as Latin-1: this puts the bytes of UTF-8 on the wire. */
const utf8Header = (value: string): string => Buffer.from(value).toString("latin1");

/** `proxyEnv: {}`: some runtimes can be told to take a proxy from the environment; these agents never do. */
const agentOptions = { keepAlive: false, proxyEnv: {} };

const askOnce = async (
  request: HttpRequest,
  stop: AbortSignal,
  lookup: LookupFunction,
): Promise<HttpAnswer | StoppedAttempt> => {
  if (stop.aborted) return { kind: "stopped", resolvingMs: null };
  const { url, method, headers, timeoutMs } = request;
  const secure = url.protocol === "https:";
  const agent = secure ? new HttpsAgent(agentOptions) : new HttpAgent(agentOptions);
  const name = watchLookup(lookup);
  return new Promise((resolve) => {
    const client = (secure ? httpsRequest : httpRequest)(url, { method, headers, agent, lookup: name.lookup });
    let reader: AnswerReader | null = null;
    const finish = (outcome: HttpAnswer | StoppedAttempt): void => {
      clearTimeout(timer);
      stop.removeEventListener("abort", onStop);
      client.destroy();
      agent.destroy();
      resolve(outcome);
    };
    const onStop = (): void => finish({ kind: "stopped", resolvingMs: name.waitingMs() });
    const timer = setTimeout(() => {
      if (name.waitingMs() !== null) finish(unresolved(request));
      else finish(reader?.cutShort("slow", "stopped in the middle of its answer") ?? slow(request));
    }, timeoutMs);
    stop.addEventListener("abort", onStop, { once: true });
    // After `finish` the connection is torn down, and what that raises is of no interest: the promise is settled.
    client.on("error", (error) =>
      finish(reader?.cutShort("reset", "broke its answer off") ?? classifyError(error, request)),
    );
    client.on("response", (response) => {
      reader = readAnswer(response, request, finish);
    });
    client.end();
  });
};

interface AnswerReader {
  /** The answer where its body did not come to an end. */
  cutShort(kind: "slow" | "reset", how: string): HttpAnswer;
}

const readAnswer = (
  response: IncomingMessage,
  request: HttpRequest,
  finish: (answer: HttpAnswer) => void,
): AnswerReader => {
  const { shown, status, body } = request;
  const found = response.statusCode ?? 0;
  let excerpt: Buffer = Buffer.alloc(0);
  /** The end of what was read: the text may lie across two chunks. */
  let carried: Buffer = Buffer.alloc(0);
  const wrong = (reason: string): HttpAnswer => ({
    kind: "wrong",
    reason: `${shown} ${reason}`,
    excerpt: new TextDecoder().decode(excerpt, { stream: true }),
  });
  const wrongStatus = (): HttpAnswer => wrong(`answered ${found}, expected ${status}`);
  const right: HttpAnswer = {
    kind: "right",
    reason: `${shown} answered ${found}${body === null ? "" : " with the expected text"}`,
  };

  const cutShort: AnswerReader["cutShort"] = (kind, how) =>
    found === status ? { kind, reason: `${shown} answered ${found} and ${how}` } : wrongStatus();

  if (found === status && body === null) {
    finish(right);
    return { cutShort };
  }
  response.on("data", (chunk: Buffer) => {
    if (excerpt.length < MAX_EXCERPT_BYTES) {
      excerpt = Buffer.concat([excerpt, chunk]).subarray(0, MAX_EXCERPT_BYTES);
    }
    if (found !== status) {
      if (excerpt.length >= MAX_EXCERPT_BYTES) finish(wrongStatus());
      return;
    }
    const window = Buffer.concat([carried, chunk]);
    if (window.includes(body!)) finish(right);
    carried = window.subarray(Math.max(0, window.length - body!.length + 1));
  });
  response.on("error", () => finish(cutShort("reset", "broke its answer off")));
  response.on("close", () => {
    if (!response.complete) finish(cutShort("reset", "broke its answer off"));
  });
  response.on("end", () => {
    if (!response.complete) finish(cutShort("reset", "broke its answer off"));
    else finish(found === status ? wrong(`answered ${found} without the expected text`) : wrongStatus());
  });
  return { cutShort };
};

const slow = ({ shown, timeoutMs }: Pick<HttpRequest, "shown" | "timeoutMs">): HttpAnswer => ({
  kind: "slow",
  reason: `${shown} did not answer within ${timeoutMs / 1000} s`,
});

const unresolved = ({ shown, timeoutMs }: Pick<HttpRequest, "shown" | "timeoutMs">): HttpAnswer => ({
  kind: "name_resolution",
  reason: `the host of ${shown} was not resolved in ${timeoutMs / 1000} s`,
});

const ROUTING = new Set(["EHOSTUNREACH", "ENETUNREACH", "EHOSTDOWN", "ENETDOWN", "EADDRNOTAVAIL", "EACCES", "EPERM"]);
const RESET = new Set(["ECONNRESET", "EPIPE", "ECONNABORTED"]);
const NAMES = /^(ENOTFOUND|EAI_|ENODATA|ESERVFAIL|EREFUSED|ENONAME|EBADNAME)/;
const CERTIFICATE = /CERT|SELF_SIGNED|UNABLE_TO_|HOSTNAME_MISMATCH|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH|CRL/;
const NOT_HTTP = /^(HPE_|EPROTO$|ERR_SSL_)/;

/** What a failed connection says: `refused`, `reset`, `slow` and `wrong` of the work, the others of what lies between. */
export const classifyError = (error: unknown, request: Pick<HttpRequest, "shown" | "timeoutMs">): HttpAnswer => {
  const { code, message, errors } = error as { code?: unknown; message?: unknown; errors?: unknown[] };
  const { shown } = request;
  // A name with several addresses: one of them that was reached tells more than another that was not.
  if (Array.isArray(errors) && errors.length > 0) {
    const answers = errors.map((each) => classifyError(each, request));
    return answers.find(({ kind }) => kind === "refused" || kind === "reset" || kind === "slow") ?? answers[0]!;
  }
  const name = typeof code === "string" ? code : "";
  if (name === "ECONNREFUSED") return { kind: "refused", reason: `${shown} refused the connection` };
  if (RESET.has(name)) return { kind: "reset", reason: `${shown} closed the connection without an answer` };
  if (name === "ETIMEDOUT") return slow(request);
  if (NAMES.test(name)) return { kind: "name_resolution", reason: `the host of ${shown} cannot be resolved (${name})` };
  if (ROUTING.has(name)) return { kind: "routing", reason: `there is no way to ${shown} (${name})` };
  if (CERTIFICATE.test(name))
    return { kind: "certificate", reason: `the certificate of ${shown} is not accepted (${name})` };
  if (NOT_HTTP.test(name))
    return { kind: "wrong", reason: `${shown} did not answer with ${shown.split(":")[0]?.toUpperCase()}` };
  return { kind: "local", reason: `${shown} could not be asked: ${name || message}` };
};
