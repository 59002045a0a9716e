import { problemSchema } from "@orchestrator/shared/http/problem.ts";
import * as v from "valibot";

/** The scheduler is not there yet, or not any more, or it was killed while it answered. */
export class NotThereError extends Error {}

/** An answer that the scheduler must not give, or one that it owes. The message says which. */
export class WrongAnswerError extends Error {}

export interface Answer {
  status: number;
  body: unknown;
}

/** What a scheduler says that listens already and is not ready. */
const STARTING = /^Nothing can be answered yet/;

/** So much of a wrong answer is shown. */
const SHOWN_CHARACTERS = 400;

/** Asks one scheduler, which may be killed at any time. */
export class Asker {
  readonly #url: string;
  readonly #answerMs: number;

  /** @param answerMs how long an answer may take, in ms. */
  constructor(url: string, answerMs: number) {
    this.#url = url;
    this.#answerMs = answerMs;
  }

  /**
   * @throws {NotThereError} where there is nobody to answer;
   * {WrongAnswerError} where there is, and no answer comes in time, or one that is not JSON.
   */
  async ask(method: string, path: string, body?: object): Promise<Answer> {
    const what = `${method} ${path}`;
    const { status, text } = await this.#exchange(what, path, {
      method,
      ...(body && { headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
    });
    const answer = { status, body: parsed(what, status, text) };
    if (isStarting(answer)) throw new NotThereError(`${what}: the scheduler is starting`);
    return answer;
  }

  /**
   * Asks for what has to be answered with 200 and a body of that shape.
   * @throws {NotThereError} where there is nobody to answer; {WrongAnswerError} for any other answer.
   */
  async take<S extends v.GenericSchema>(
    schema: S,
    method: string,
    path: string,
    body?: object,
  ): Promise<v.InferOutput<S>> {
    const answer = await this.ask(method, path, body);
    if (answer.status !== 200) throw wrong(`${method} ${path}`, answer);
    const read = v.safeParse(schema, answer.body);
    if (read.success) return read.output;
    const [issue] = read.issues;
    throw wrong(`${method} ${path}`, answer, `${v.getDotPath(issue) ?? "the body"}: ${issue.message}`);
  }

  async #exchange(what: string, path: string, init: RequestInit): Promise<{ status: number; text: string }> {
    try {
      const response = await fetch(`${this.#url}${path}`, { ...init, signal: AbortSignal.timeout(this.#answerMs) });
      return { status: response.status, text: await response.text() };
    } catch (error) {
      if (error instanceof DOMException && error.name === "TimeoutError") {
        throw new WrongAnswerError(`${what} was not answered for ${this.#answerMs} ms`);
      }
      // Each runtime has its own words for a connection that is refused or breaks off.
      throw new NotThereError(`${what}: ${error}`, { cause: error });
    }
  }
}

/** @param why what is wrong with it, where its status does not say so. */
export const wrong = (what: string, { status, body }: Answer, why?: string): WrongAnswerError =>
  new WrongAnswerError(
    `${what} was answered with ${status}${why === undefined ? "" : ` (${why})`}: ${shown(JSON.stringify(body))}`,
  );

const shown = (text: string): string => text.slice(0, SHOWN_CHARACTERS);

const parsed = (what: string, status: number, text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new WrongAnswerError(`${what} was answered with ${status} and no JSON: ${shown(text)}`);
  }
};

const isStarting = ({ status, body }: Answer): boolean =>
  status === 503 && v.is(problemSchema, body) && STARTING.test(body.detail);
