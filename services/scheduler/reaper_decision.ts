/** What the reaper sees of one `running` job. Ages in milliseconds, on the monotonic clock. */
export interface JobView {
  /** The finalizer mark on the job, or null. `ownerLive`: the monitor that made it still exists. */
  mark: { ageMs: number; ownerLive: boolean } | null;
  /** A launcher at work on the job, or null. */
  launcher: { ageMs: number } | null;
  /** A monitor with something at the other end: a live process, or an open stager stream. */
  monitor: { workerAlive: boolean; ageMs: number; silentMs: number; timeoutMs: number; stallMs: number } | null;
  /** How long ago the reaper first saw the job with none of these; null where this is the first time. */
  unownedMs: number | null;
}

export interface ReaperLimits {
  graceMs: number;
  finalizerMaxMs: number;
  launchTimeoutMs: number;
  /** False: marks are not looked at (`ORCH_FINALIZER_LIVENESS_ENABLED=false`). */
  livenessEnabled: boolean;
}

export type ReaperAction =
  /** A live finalizer: the job is not reaped, however long ago its process exited. */
  | { kind: "skip_live_finalizer" }
  /** A hung finalizer: aborted, the job requeued under a new fence. */
  | { kind: "expire_finalizer" }
  | { kind: "leave" }
  /** The launch takes too long: its monitor ends it and finalizes. */
  | { kind: "end_launch" }
  | { kind: "end_run"; as: "timed_out" | "stalled" }
  /** Nobody owns the job, but not for long enough yet. */
  | { kind: "wait" }
  /** Nobody has owned it for the grace: settled as lost. Whether it goes back into the queue or fails, its settle decides. */
  | { kind: "reap" };

export interface ReaperDecision {
  action: ReaperAction;
  /** A mark whose monitor has ended is a leak, not a licence: it is dropped and the job judged without it. */
  dropLeakedMark: boolean;
}

/** Decides about one job. Read it beside the table of the contract: the rows stand in the same order. */
export const decide = (job: JobView, limits: ReaperLimits): ReaperDecision => {
  const dropLeakedMark = job.mark !== null && !job.mark.ownerLive;
  const mark = limits.livenessEnabled && !dropLeakedMark ? job.mark : null;
  return { action: actionFor(job, mark, limits), dropLeakedMark };
};

const actionFor = (job: JobView, mark: JobView["mark"], limits: ReaperLimits): ReaperAction => {
  if (mark !== null) return { kind: mark.ageMs > limits.finalizerMaxMs ? "expire_finalizer" : "skip_live_finalizer" };
  if (job.launcher !== null) return { kind: job.launcher.ageMs > limits.launchTimeoutMs ? "end_launch" : "leave" };
  if (job.monitor?.workerAlive) return forLiveMonitor(job.monitor);
  if (job.unownedMs === null || job.unownedMs < limits.graceMs) return { kind: "wait" };
  return { kind: "reap" };
};

const forLiveMonitor = ({ ageMs, silentMs, timeoutMs, stallMs }: NonNullable<JobView["monitor"]>): ReaperAction => {
  if (ageMs > timeoutMs) return { kind: "end_run", as: "timed_out" };
  if (stallMs > 0 && silentMs > stallMs) return { kind: "end_run", as: "stalled" };
  return { kind: "leave" };
};
