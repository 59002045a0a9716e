import type { Step } from "./step.ts";

/**
 * The fewest of these steps that still fail: ever smaller pieces are left out for as long as that helps, and of two at the
 * same moment one.
 * @param fails takes a session through the steps; true where it ends in an error.
 */
export const reduceSteps = async (
  steps: readonly Step[],
  fails: (steps: readonly Step[]) => Promise<boolean>,
): Promise<readonly Step[]> => {
  let left = steps;
  for (let size = Math.ceil(steps.length / 2); ; size = Math.ceil(size / 2)) {
    const before = left.length;
    left = await leaveOut(left, size, fails);
    if (size === 1 && left.length === before) return separate(left, fails);
  }
};

/** From the end: what comes last depends on what came first. */
const leaveOut = async (
  steps: readonly Step[],
  size: number,
  fails: (steps: readonly Step[]) => Promise<boolean>,
): Promise<readonly Step[]> => {
  let left = steps;
  for (let end = left.length; end > 0; end -= size) {
    const without = left.filter((_, index) => index < end - size || index >= end);
    if (await fails(without)) left = without;
  }
  return left;
};

const separate = async (
  steps: readonly Step[],
  fails: (steps: readonly Step[]) => Promise<boolean>,
): Promise<readonly Step[]> => {
  let left = steps;
  for (const [index, step] of steps.entries()) {
    if (step.do !== "together") continue;
    for (const single of [step.first, step.second]) {
      const simpler = left.map((other, at) => (at === index ? single : other));
      if (await fails(simpler)) left = simpler;
    }
  }
  return left;
};
