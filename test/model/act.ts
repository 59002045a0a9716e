import type { Model } from "./model.ts";
import type { World } from "./world.ts";

/** A step with what it is done to already chosen. */
export interface Act {
  /** What is chosen, for people: `run 3`, `ORCH-1`. */
  on?: string;
  /** Changes the model. @returns the answer that is expected. */
  predict(): unknown;
  /** Does it. @returns the answer, as far as it is predicted. */
  perform(world: World): Promise<unknown>;
}

/** The one at that place, counted around and around; from the end where it is negative. */
export const pick = <T>(from: readonly T[], at: number): T | undefined =>
  from.length === 0 ? undefined : from[((at % from.length) + from.length) % from.length];

/** How a task's state is told in an answer. */
export const taskAnswer = (model: Model, taskId: number) => {
  const { status, stage, returns } = model.task(taskId);
  return { kind: "ok", status, stage, returns };
};
