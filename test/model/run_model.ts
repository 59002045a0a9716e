import fc from "fast-check";
import { expect } from "vitest";
import { arbitrarySteps, arbitraryTasks } from "./arbitrary_step.ts";
import { reduceSteps } from "./reduce_steps.ts";
import { Session } from "./session.ts";
import { type Step, showStep } from "./step.ts";
import { makeTemplate } from "./template.ts";

const STEPS_PER_RUN = 50;
/** What is done beyond that is only the rest of a command that was begun. */
const MOST_STEPS_PER_RUN = 55;
/** Of so many commands enough can be done, since some of them are several steps. */
const COMMANDS = { least: 100, most: 140 };

/**
 * Takes the queue and its model through steps in any order. Where they part, the fewest steps that show it are in the error,
 * as they can be written into a test.
 * @param seed the same seed, the same runs: a failure is one of the change, and not of the day. `MODEL_SEED` and `MODEL_RUNS`
 * in the environment look elsewhere, and further.
 */
export const runModel = async ({ seed, runs }: { seed: number; runs: number }): Promise<void> => {
  const { folder, template } = await makeTemplate();
  const counted = { runs: 0, fewestSteps: Number.POSITIVE_INFINITY };

  const inSession = async (work: (session: Session) => Promise<void>): Promise<number> => {
    const session = await Session.begin(folder, template);
    try {
      await work(session);
      await session.end();
      return session.steps.length;
    } catch (error) {
      throw new SessionError(session, error);
    } finally {
      await session.world.remove();
    }
  };

  const steps = fc.commands([arbitrarySteps.map((some) => new Command(some))], {
    maxCommands: COMMANDS.most,
    size: "max",
  });
  const enough = steps.filter((commands) => [...commands].length >= COMMANDS.least);
  const property = fc.asyncProperty(arbitraryTasks, enough, async (tasks, commands) => {
    const n = await inSession(async (session) => {
      for (const step of tasks) await session.take(step);
      await fc.asyncModelRun(() => ({ model: { session }, real: { session } }), commands);
    });
    counted.runs += 1;
    counted.fewestSteps = Math.min(counted.fewestSteps, n);
  });
  // What is shrunk are the steps that were taken, and not the commands of which they are part.
  const details = await fc.check(property, { seed, numRuns: runs, endOnFailure: true });
  const { errorInstance: error } = details;
  if (error instanceof SessionError) {
    throw await inFewestSteps(error, `seed ${seed}, path ${details.counterexamplePath}`, (some) =>
      inSession(async (session) => {
        for (const step of some) await session.take(step);
      }).then(
        () => null,
        (again: SessionError) => again,
      ),
    );
  }
  if (details.failed) throw error;
  expect(counted.runs).toBe(runs);
  expect(counted.fewestSteps).toBeGreaterThanOrEqual(STEPS_PER_RUN);
};

interface Both {
  session: Session;
}

/** Steps as fast-check wants them; the session holds both the model and the real thing. */
class Command implements fc.AsyncCommand<Both, Both> {
  readonly #steps: readonly Step[];

  constructor(steps: readonly Step[]) {
    this.#steps = steps;
  }

  check({ session }: Both): boolean {
    if (session.steps.length >= MOST_STEPS_PER_RUN) return false;
    return this.#steps.length > 1 || session.allows(this.#steps[0]!);
  }

  async run({ session }: Both): Promise<void> {
    for (const step of this.#steps) await session.take(step);
  }

  toString(): string {
    return this.#steps.map(showStep).join(", ");
  }
}

/** What a session ended in, with the way there. */
class SessionError extends Error {
  readonly steps: readonly Step[];
  readonly story: string;

  constructor({ steps, taken }: Session, cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.steps = steps;
    this.story = taken.map((line) => `  ${line}`).join("\n");
  }
}

const inFewestSteps = async (
  error: SessionError,
  from: string,
  failureOf: (steps: readonly Step[]) => Promise<SessionError | null>,
): Promise<Error> => {
  const fewest = await reduceSteps(error.steps, async (some) => (await failureOf(some)) !== null);
  const { message, story, cause } = (await failureOf(fewest)) ?? error;
  return new Error(`${message}\n\nthe fewest steps that show it (${from}):\n\n${story}\n`, { cause });
};
