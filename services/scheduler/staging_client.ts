import { fetchErrorText } from "@orchestrator/shared/http/fetch_error.ts";
import {
  type StagingEvent,
  type StagingResult,
  type StagingRunRequest,
  stagingEventSchema,
} from "@orchestrator/shared/schemas/staging_run.ts";
import * as v from "valibot";

/** A stager that says nothing for so long is gone, in ms; it sends a heartbeat every 5 s. */
const SILENCE_MS = 20_000;

/** How long a stager may take to answer a request, in ms. */
const ANSWER_MS = 20_000;

const LIMITS: StagingLimits = { answerMs: ANSWER_MS, silenceMs: SILENCE_MS };

/** An artifact of 1 MiB, escaped as JSON, fits; a line beyond that is nonsense and is not kept in memory. */
const LINE_LIMIT = 8 * 1024 * 1024;

/** So much of a refusal is read, in bytes, and so much of it quoted, in characters. */
const REFUSAL_LIMIT = 16 * 1024;
const QUOTED_CHARS = 500;

export interface StagingCall {
  /** Where the stager is (`ORCH_STAGER_URL`): its path, if it has one, stands before the stager's own. No slash at its end. */
  url: string;
  token: string | null;
  request: StagingRunRequest;
  /** Ends the run: the open connection is the run. */
  signal: AbortSignal;
  /** Nothing more is read until what it answers has resolved: a stager may write faster than a disk. */
  onEvent: (event: StagingEvent) => void | Promise<void>;
  limits?: StagingLimits;
}

/** In ms. */
interface StagingLimits {
  answerMs: number;
  silenceMs: number;
}

export type StagingAnswer =
  | { kind: "result"; result: StagingResult }
  /** Nobody answered: it says nothing about the work nor about the stage. */
  | { kind: "unreachable"; reason: string }
  /** The stager answered that it will not run this. */
  | { kind: "refused"; reason: string }
  /** The run had begun; then the stream ended, fell silent or made no sense. */
  | { kind: "lost"; reason: string };

/**
 * Asks a stager to run a staging job and follows the stream of its answer to the result.
 * @throws the reason of `signal` once it is aborted.
 */
export const callStager = async (call: StagingCall): Promise<StagingAnswer> => {
  const { url, token, request, signal, limits = LIMITS } = call;
  const silence = new Silence();
  let response: Response;
  try {
    silence.expectWithin(limits.answerMs);
    response = await fetch(`${url}/runs`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/x-ndjson",
        ...(token === null ? {} : { authorization: `Bearer ${token}` }),
      },
      body: JSON.stringify(request),
      signal: AbortSignal.any([signal, silence.signal]),
    });
  } catch (error) {
    signal.throwIfAborted();
    return { kind: "unreachable", reason: `no answer from the stager at ${url}: ${fetchErrorText(error)}` };
  } finally {
    silence.clear();
  }
  if (!response.ok || response.body === null) {
    const said = response.body === null ? "" : await readStart(response.body, limits.answerMs);
    signal.throwIfAborted();
    const reason = `the stager at ${url} answered ${response.status}: ${said}`;
    return response.status >= 500 ? { kind: "unreachable", reason } : { kind: "refused", reason };
  }
  try {
    return await follow(response.body, call, silence);
  } catch (error) {
    signal.throwIfAborted();
    return { kind: "lost", reason: `the stager's stream broke off: ${fetchErrorText(error)}` };
  } finally {
    silence.clear();
  }
};

/** The beginning of a body, of which nobody knows how long it is, nor whether it ends. */
const readStart = async (body: ReadableStream<Uint8Array>, limitMs: number): Promise<string> => {
  const reader = body.getReader();
  const stop = () => void reader.cancel().catch(() => undefined);
  const timer = setTimeout(stop, limitMs);
  const chunks: Uint8Array[] = [];
  try {
    for (let bytes = 0; bytes < REFUSAL_LIMIT; ) {
      const { done, value } = await reader.read();
      if (done) break;
      chunks.push(value);
      bytes += value.length;
    }
  } catch (error) {
    chunks.push(Buffer.from(`(${fetchErrorText(error)})`));
  } finally {
    clearTimeout(timer);
    stop();
  }
  return Buffer.concat(chunks).toString("utf8").slice(0, QUOTED_CHARS);
};

const follow = async (
  body: ReadableStream<Uint8Array>,
  { signal, onEvent, limits = LIMITS }: StagingCall,
  silence: Silence,
): Promise<StagingAnswer> => {
  const reader = body.getReader();
  const stop = () => void reader.cancel().catch(() => undefined);
  const either = AbortSignal.any([signal, silence.signal]);
  either.addEventListener("abort", stop, { once: true });
  const lines = new LineSplitter();
  try {
    for (;;) {
      silence.expectWithin(limits.silenceMs);
      const { done, value } = await reader.read();
      signal.throwIfAborted();
      if (silence.signal.aborted) return { kind: "lost", reason: fetchErrorText(silence.signal.reason) };
      if (done) return { kind: "lost", reason: "the stager's stream ended without a result" };
      for (const line of lines.push(value)) {
        const parsed = parseEvent(line);
        if (parsed === null)
          return { kind: "lost", reason: `the stager sent a line that is no event: ${line.slice(0, 200)}` };
        const taken = onEvent(parsed);
        if (taken !== undefined) {
          // What is waited for is this side's disk: the stager may have spoken meanwhile.
          silence.clear();
          await taken;
        }
        if (parsed.event === "result") return { kind: "result", result: parsed };
      }
      if (lines.pendingLength > LINE_LIMIT)
        return { kind: "lost", reason: `the stager sent a line of more than ${LINE_LIMIT} characters` };
    }
  } finally {
    either.removeEventListener("abort", stop);
    stop();
  }
};

const parseEvent = (line: string): StagingEvent | null => {
  let json: unknown;
  try {
    json = JSON.parse(line);
  } catch {
    // A line that is no JSON is told apart from one that is, by the caller.
    return null;
  }
  const parsed = v.safeParse(stagingEventSchema, json);
  return parsed.success ? parsed.output : null;
};

/** Cuts a byte stream into lines. */
class LineSplitter {
  readonly #decoder = new TextDecoder();
  #pending = "";

  get pendingLength(): number {
    return this.#pending.length;
  }

  push(bytes: Uint8Array): string[] {
    const parts = (this.#pending + this.#decoder.decode(bytes, { stream: true })).split("\n");
    this.#pending = parts.pop() ?? "";
    return parts.filter((line) => line.trim() !== "");
  }
}

/** Aborts its signal when what was expected does not come in time. */
class Silence {
  readonly #abort = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  expectWithin(ms: number): void {
    this.clear();
    this.#timer = setTimeout(() => this.#abort.abort(new Error(`the stager has been silent for ${ms} ms`)), ms);
  }

  clear(): void {
    clearTimeout(this.#timer);
  }
}
