import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "@orchestrator/shared/log.ts";
import type { EndResult } from "@orchestrator/shared/process/end_processes.ts";
import { backoffMs } from "@orchestrator/shared/retry_delay.ts";
import type { JobHold } from "@orchestrator/shared/storage/end_job.ts";
import type { AgentProcess } from "./agent_process.ts";

const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 5_000;

export interface SureEnd {
  /** Milliseconds between SIGTERM and SIGKILL, each time. */
  graceMs: number;
  log: Log;
  /** Whose agent it is. */
  hold: JobHold;
  /** Ends the trying. */
  signal: AbortSignal;
}

/**
 * Ends an agent and what it left, however often that fails (no file can be opened to look at the processes, one is stuck in the
 * kernel): nobody else would, and both its run and the scheduler's own end wait for its exit.
 * @throws the signal's reason once it is aborted.
 */
export const endSurely = async (
  agent: Pick<AgentProcess, "pid" | "end">,
  { graceMs, log, hold, signal }: SureEnd,
): Promise<EndResult> => {
  for (let tries = 1; ; tries++) {
    let failure: unknown;
    try {
      const result = await agent.end(graceMs);
      if (!result.survivors.includes(agent.pid)) return result;
      failure = new Error(`process ${agent.pid} is still there after SIGKILL: it is stuck in the kernel, or not ours`);
    } catch (error) {
      failure = error;
    }
    signal.throwIfAborted();
    const retryInMs = backoffMs(tries, FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
    log.error({ err: failure, ...hold, pid: agent.pid, tries, retryInMs }, "an agent could not be ended; trying again");
    await sleep(retryInMs, undefined, { signal });
  }
};
