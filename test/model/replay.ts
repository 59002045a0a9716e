import { Session } from "./session.ts";
import type { Step } from "./step.ts";
import { makeTemplate } from "./template.ts";

/**
 * Takes a session through these steps, each of which must be possible, and checks all that is checked after each.
 * @param look what else is to be seen at the end.
 */
export const replay = async (steps: readonly Step[], look?: (session: Session) => Promise<void>): Promise<void> => {
  const { folder, template } = await makeTemplate();
  const session = await Session.begin(folder, template);
  try {
    for (const step of steps) {
      if (!(await session.take(step)))
        throw new Error(`not possible: ${JSON.stringify(step)} after\n${session.taken.join("\n")}`);
    }
    await look?.(session);
    await session.end();
  } finally {
    await session.world.remove();
  }
};
