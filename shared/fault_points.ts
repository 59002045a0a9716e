import { noPoints, type Points } from "./points.ts";

/**
 * The points of each service, in the order in which a work item comes by them. A test holds this list to what the code
 * reaches; the crash harness kills at each.
 */
export const FAULT_POINTS = {
  scheduler: [
    "start.locked",
    "start.leftovers_ended",
    "start.requeue",
    "start.requeued",
    "start.reaper",
    "start.dispatcher",
    "claim.before",
    "claim.before_commit",
    "claim.after",
    "fetch.before",
    "fetch.after",
    "launch.salvaged",
    "launch.workspace_half_made",
    "launch.workspace_ready",
    "spawn.before",
    "spawn.after",
    "spawn.recorded",
    "exit.marked",
    "exit.seen",
    "exit.recorded",
    "collect.before",
    "collect.after",
    "commit.before",
    "commit.after",
    "gate.read",
    "push.before",
    "push.after",
    "ref.before",
    "ref.after",
    "merge.before",
    "merge.after",
    "settle.before",
    "settle.before_commit",
    "settle.after",
    "clear.before",
    "clear.after",
  ],
  stager: [
    "run.begun",
    "checkout.before",
    "checkout.after",
    "step.before",
    "step.after",
    "teardown.before",
    "teardown.after",
    "result.before",
    "result.after",
  ],
} as const;

/** Where a process is to die: when it reaches the point for the `nth` time, counted from 1. */
export interface FaultPoint {
  name: string;
  nth: number;
}

export const FAULT_POINT_FORMAT = "<point> or <point>:<n>, the n-th time that it is reached";

/** Reads `push.after` or `push.after:3`. @returns null for anything else, a point that is not in the code among it. */
export const parseFaultPoint = (text: string): FaultPoint | null => {
  const [, name = "", nth = "1"] = /^([a-z_.]+)(?::([1-9][0-9]{0,5}))?$/.exec(text) ?? [];
  const names: readonly string[] = [...FAULT_POINTS.scheduler, ...FAULT_POINTS.stager];
  return names.includes(name) ? { name, nth: Number(nth) } : null;
};

/** The points of a process that dies at one of them, by SIGKILL as if the machine had gone; inert where `fault` is null. */
export const createPoints = (fault: FaultPoint | null): Points => {
  if (fault === null) return noPoints;
  let times = 0;
  return {
    reach: (name) => {
      if (name === fault.name && ++times === fault.nth) process.kill(process.pid, "SIGKILL");
      return noPoints.reach(name);
    },
  };
};
