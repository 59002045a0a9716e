/**
 * Named places in the code at which a test or the crash harness can hold or end the process. Everywhere else reaching one
 * costs a call that returns at once.
 */
export interface Points {
  /** @param name for example `settle.before_commit`; @param key which job, run or step stands there. */
  reach(name: string, key?: number | string): Promise<void>;
}

const REACHED = Promise.resolve();

export const noPoints: Points = { reach: () => REACHED };
