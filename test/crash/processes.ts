import { findMarked } from "@orchestrator/shared/process/find_processes.ts";
import { readEnviron } from "@orchestrator/shared/process/proc_table.ts";
import { findLeftovers } from "../demo/leftovers.ts";
import type { Violation } from "./invariants.ts";
import type { CrashSite } from "./site.ts";

/** Agents, and what they started, of runs that an earlier scheduler began. A staging step is its stager's to end. */
export const agentsOfEarlierRuns = (instanceId: string, lastRunId: number): Violation[] =>
  findMarked({ instanceId }).flatMap(({ pid }) => {
    const environ = readEnviron(pid);
    const runId = Number(environ?.ORCH_RUN_ID ?? Number.NaN);
    return environ?.ORCH_AGENT !== undefined && runId <= lastRunId ? [`left running: pid ${pid} of run ${runId}`] : [];
  });

/** Whatever carries the site's folder when nothing of it should run any more. */
export const leftovers = ({ folder }: CrashSite): Violation[] =>
  findLeftovers(folder).map(({ pid, command }) => `left running: pid ${pid} (${command})`);
