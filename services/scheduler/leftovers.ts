import { setTimeout as sleep } from "node:timers/promises";
import { killLeftovers } from "@orchestrator/shared/process/kill_leftovers.ts";
import type { ProcessId } from "@orchestrator/shared/process/proc_table.ts";
import { isAlive } from "@orchestrator/shared/process/proc_table.ts";
import { listOpenProcesses } from "@orchestrator/shared/storage/list_running.ts";
import { isStagingStep } from "./orphans.ts";
import type { RunContext } from "./run_context.ts";

/** How long a keeper may take to note how its agent ended, and how often it is looked at, in ms. */
const KEEPERS_MS = { longest: 1_000, poll: 5 };

/**
 * Ends what an earlier process of this database left running, at once: agents, and git commands in the mirrors. A staging
 * step is left to its stager, which sees its stream gone and tears down in its own time; the reaper looks after those whose
 * stager is gone too.
 */
export const endLeftovers = async ({ storage, instanceId, mirrors, config, log }: RunContext): Promise<void> => {
  const known = (await listOpenProcesses(storage)).map(({ pid, pidStarted }) => ({ pid, started: pidStarted }));
  const isKeeper = ({ pid, started }: ProcessId): boolean =>
    known.some((keeper) => keeper.pid === pid && keeper.started === started);
  const end = (spare: (process: ProcessId) => boolean) =>
    killLeftovers({ instanceId, known, spare: (process) => isStagingStep(process.pid) || spare(process) });
  // An agent that has exited 0 in this very moment: its keeper is about to note it, and ends by itself as all the others do.
  const agents = await end(isKeeper);
  await untilGone(known);
  const keepers = await end(() => false);
  const ended = agents.ended + keepers.ended;
  if (ended > 0) log.warn({ ended }, "ended processes that an earlier scheduler had left running");
  for (const name of Object.keys(config.repos)) await mirrors.get(name).clearStaleLocks();
};

const untilGone = async (keepers: readonly ProcessId[]): Promise<void> => {
  const deadline = performance.now() + KEEPERS_MS.longest;
  while (keepers.some(({ pid, started }) => isAlive(pid, started)) && performance.now() < deadline) {
    await sleep(KEEPERS_MS.poll);
  }
};
