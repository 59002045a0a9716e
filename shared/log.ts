import { type DestinationStream, type Logger, pino, stdTimeFunctions } from "pino";
import type { Config } from "./config/config.ts";
import { createRedactor, createSuspicion } from "./redact.ts";

export type Log = Logger;

export interface LogOptions {
  level: Config["logLevel"];
  /** Stands in every line as `service`. */
  service: "scheduler" | "stager";
  /** Tokens and other values that no line may show, in whatever field or text they turn up. */
  secrets: readonly string[];
  /** Where the lines go; by default standard output, written before the call returns. */
  destination?: DestinationStream;
}

/**
 * One JSON object a line: `level` as a word, `time` in ISO 8601, `service`, `pid`, `msg` and the fields given, whose names
 * are written in snake_case. What looks like a credential and every known secret is replaced by `[redacted]`.
 *
 * @example
 * const log = createLog({ level: "info", service: "scheduler", secrets: [token] });
 * log.info({ jobId: 7 }, "claimed"); // {"level":"info",…,"job_id":7,"msg":"claimed"}
 */
export const createLog = ({ level, service, secrets, destination }: LogOptions): Log => {
  const redact = createRedactor(secrets);
  const mayHold = createSuspicion(secrets);
  const clean = (line: string) => `${JSON.stringify(snakeFields(redact(JSON.parse(line)) as object))}\n`;
  return pino(
    {
      level,
      base: { service, pid: process.pid },
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      // On the finished line, since it is all that leaves the process: what a message, an error's stack or a child's fields
      // hold has come together here.
      hooks: { streamWrite: (line) => (mayHold(line) || CAMEL_FIELD.test(line) ? clean(line) : line) },
    },
    destination ?? pino.destination({ dest: 1, sync: true }),
  );
};

/** A name that is not in snake_case yet, in the text of a line; it may be one that stands inside a value, too. */
const CAMEL_FIELD = /[a-z0-9][A-Z][^"]*":/;

/** Own field names only: what stands inside a value may be a record whose keys are data. */
const snakeFields = (fields: object): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(fields).map(([key, value]) => [
      key.replace(/(?<=[a-z0-9])[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      value,
    ]),
  );
