import { findMarked } from "@orchestrator/shared/process/find_processes.ts";
import { readEnviron } from "@orchestrator/shared/process/proc_table.ts";

export interface Orphan {
  runId: number;
  /** True for what an agent started; false for what a stager's step started, which its stager may still be tearing down. */
  isAgents: boolean;
}

/** Agents have a name in their environment, what a staging plan starts has not. */
export const isStagingStep = (pid: number): boolean => {
  const environ = readEnviron(pid);
  return environ?.ORCH_RUN_ID !== undefined && environ.ORCH_AGENT === undefined;
};

/** The runs that have processes on this machine although nobody wants them any more. */
export const findOrphans = (instanceId: string, wanted: ReadonlySet<number>): Orphan[] => {
  const found = new Map<number, Orphan>();
  for (const { pid } of findMarked({ instanceId })) {
    const runId = Number(readEnviron(pid)?.ORCH_RUN_ID);
    // A command of the services' own (git) carries the instance but no run.
    if (!Number.isSafeInteger(runId) || runId <= 0 || wanted.has(runId)) continue;
    const isAgents = !isStagingStep(pid) || found.get(runId)?.isAgents === true;
    found.set(runId, { runId, isAgents });
  }
  return [...found.values()];
};
