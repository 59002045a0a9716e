import { fetchErrorText } from "@orchestrator/shared/http/fetch_error.ts";
import * as v from "valibot";

/** What answers at the address of a service. */
export type Readiness =
  | { kind: "ready" }
  | { kind: "not_ready"; reasons: readonly string[] }
  /** Something that is none of the services. */
  | { kind: "other"; reason: string }
  | { kind: "nobody"; reason: string };

const MAX_CHARS = 64 * 1024;

const readinessSchema = v.object({ ready: v.boolean(), reasons: v.array(v.string()) });

/** Asks `/readyz` of a service. @param url without a slash at its end. @throws the signal's reason once it is aborted. */
export const askReadiness = async (url: string, limits: AskLimits): Promise<Readiness> => {
  const answer = await ask(`${url}/readyz`, {}, limits);
  if (answer.kind === "nobody") return answer;
  const parsed = v.safeParse(readinessSchema, parseJson(answer.text));
  if (!parsed.success || (answer.status !== 200 && answer.status !== 503)) {
    return { kind: "other", reason: `GET /readyz is answered ${answer.status}` };
  }
  const { ready, reasons } = parsed.output;
  return ready ? { kind: "ready" } : { kind: "not_ready", reasons };
};

export type Answer = { kind: "answer"; status: number; text: string } | { kind: "nobody"; reason: string };

export interface AskLimits {
  signal: AbortSignal;
  timeoutMs: number;
}

/** One GET, bounded in time and size, that follows no redirect. @throws the signal's reason once it is aborted. */
export const ask = async (
  url: string,
  headers: Record<string, string>,
  { signal, timeoutMs }: AskLimits,
): Promise<Answer> => {
  const timeout = AbortSignal.timeout(timeoutMs);
  try {
    const response = await fetch(url, { headers, redirect: "manual", signal: AbortSignal.any([signal, timeout]) });
    return { kind: "answer", status: response.status, text: await readText(response) };
  } catch (error) {
    signal.throwIfAborted();
    return {
      kind: "nobody",
      reason: timeout.aborted ? `no answer within ${timeoutMs / 1000} s` : fetchErrorText(error),
    };
  }
};

const readText = async ({ body }: Response): Promise<string> => {
  if (body === null) return "";
  const decoder = new TextDecoder();
  let text = "";
  // Leaving the loop cancels what is still to come.
  for await (const chunk of body) {
    text += decoder.decode(chunk, { stream: true });
    if (text.length > MAX_CHARS) break;
  }
  return text;
};

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
};
