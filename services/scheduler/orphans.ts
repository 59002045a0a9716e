import { findMarked } from "@orchestrator/shared/process/find_processes.ts";
import { readCommandLine, readEnviron, readProcess } from "@orchestrator/shared/process/proc_table.ts";

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

/**
 * The runs that have processes on this machine although nobody wants them any more. What a staging step started counts only
 * where no stager is among its ancestors: one that lives tears its run down in its own time.
 */
export const findOrphans = (instanceId: string, wanted: ReadonlySet<number>): Orphan[] => {
  const found = new Map<number, Orphan>();
  const tended = new Set<number>();
  for (const { pid } of findMarked({ instanceId })) {
    const runId = Number(readEnviron(pid)?.ORCH_RUN_ID);
    // A command of the services' own (git) carries the instance but no run.
    if (!Number.isSafeInteger(runId) || runId <= 0 || wanted.has(runId)) continue;
    const isStep = isStagingStep(pid);
    if (isStep && hasStagerAbove(pid)) tended.add(runId);
    found.set(runId, { runId, isAgents: !isStep || found.get(runId)?.isAgents === true });
  }
  return [...found.values()].filter(({ runId }) => !tended.has(runId));
};

/** A process whose parents have died belongs to init; one of a live stager's has it above. */
const hasStagerAbove = (pid: number): boolean => {
  for (let above = readProcess(pid)?.ppid ?? 0; above > 1; above = readProcess(above)?.ppid ?? 0) {
    if (readCommandLine(above)?.some((word) => /(^|\/)stager([/.]|$)/.test(word))) return true;
  }
  return false;
};
