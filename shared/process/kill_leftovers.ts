import { type Clock, systemClock } from "../clock.ts";
import { type EndResult, endMatching } from "./end_processes.ts";
import { groupMatcher, type Matcher, marksMatcher } from "./find_processes.ts";
import { type ProcessId, readProcess } from "./proc_table.ts";

/**
 * Ends with SIGKILL what an earlier process left: the groups of the `known` leaders that are still the same processes,
 * and whatever carries the instance's mark. What `spare` names is never signalled.
 */
export const killLeftovers = async (options: {
  instanceId: string;
  known: readonly ProcessId[];
  spare?: (process: ProcessId) => boolean;
  clock?: Clock;
}): Promise<EndResult> => {
  const isMarked = marksMatcher({ instanceId: options.instanceId });
  // A pid from an old row counts only while its leader is there to prove it (as a zombie, too).
  const groups = options.known
    .filter(({ pid, started }) => readProcess(pid)?.started === started)
    .map((leader) => groupMatcher(leader));
  const matches: Matcher = (entry) =>
    !options.spare?.(entry) && (groups.some((isMember) => isMember(entry)) || isMarked(entry));
  return endMatching(matches, { graceMs: 0, clock: options.clock ?? systemClock });
};
