import { writeFileSync } from "node:fs";

/** On the kernel's scale from -1000 (never) to 1000 (first): half of what there is counts as used by the process. */
export const FIRST_TO_GO_SCORE = 500;

/**
 * Marks a process that was just started, and with it all that it will start, as one to be ended before its parent when memory
 * runs out: what an agent or a step asks for too much of must not cost the service that looks after it. Any user may raise
 * the score of his own processes. Called right after the spawn, before the program has had time to start others.
 */
export const markFirstToGo = (pid: number): void => {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, String(FIRST_TO_GO_SCORE));
  } catch (error) {
    // Gone already, another user's (sudo), or a system without /proc: then the kernel chooses by size alone.
    if (!["ENOENT", "ESRCH", "EACCES", "EPERM"].includes(String((error as NodeJS.ErrnoException).code))) throw error;
  }
};
