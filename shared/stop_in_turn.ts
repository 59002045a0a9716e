import type { Log } from "./log.ts";

/** What it is, for the log, and what stops it. */
export type Part = readonly [what: string, stop: () => unknown];

/** Parts could not be stopped in order. Each failure has been logged, and all the others have been stopped. */
export class StopError extends AggregateError {
  constructor(errors: readonly unknown[]) {
    super(errors, `${errors.length} parts could not be stopped in order`);
    this.name = "StopError";
  }
}

/**
 * Stops parts one after the other, whatever becomes of those before.
 * @throws {StopError} when all have been tried, where any has failed.
 */
export const stopInTurn = async (parts: readonly Part[], log: Pick<Log, "error">): Promise<void> => {
  const errors: unknown[] = [];
  for (const [what, stop] of parts) {
    try {
      await stop();
    } catch (error) {
      // A part of parts has told of its own.
      if (error instanceof StopError) {
        errors.push(...error.errors);
        continue;
      }
      errors.push(error);
      log.error({ err: error }, `${what} could not be stopped in order; going on with the rest`);
    }
  }
  if (errors.length > 0) throw new StopError(errors);
};
