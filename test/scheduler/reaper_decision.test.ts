import { describe, expect, test } from "vitest";
import {
  decide,
  type JobView,
  type ReaperAction,
  type ReaperLimits,
} from "../../services/scheduler/reaper_decision.ts";

const limits: ReaperLimits = {
  graceMs: 60_000,
  finalizerMaxMs: 900_000,
  launchTimeoutMs: 900_000,
  livenessEnabled: true,
};

const view = (over: Partial<JobView>): JobView => ({
  mark: null,
  launcher: null,
  monitor: null,
  unownedMs: null,
  ...over,
});

const monitor = (over: Partial<NonNullable<JobView["monitor"]>> = {}): JobView["monitor"] => ({
  workerAlive: true,
  ageMs: 0,
  silentMs: 0,
  timeoutMs: 7_200_000,
  stallMs: 1_800_000,
  ...over,
});

/** What the contract's table says, asked of every combination of what can be seen. */
const expected = (job: JobView, { livenessEnabled }: ReaperLimits): ReaperAction["kind"] => {
  const marked = livenessEnabled && job.mark?.ownerLive === true;
  if (marked && job.mark!.ageMs > limits.finalizerMaxMs) return "expire_finalizer";
  if (marked) return "skip_live_finalizer";
  if (job.launcher) return job.launcher.ageMs > limits.launchTimeoutMs ? "end_launch" : "leave";
  if (job.monitor?.workerAlive) {
    const { ageMs, timeoutMs, silentMs, stallMs } = job.monitor;
    return ageMs > timeoutMs || (stallMs > 0 && silentMs > stallMs) ? "end_run" : "leave";
  }
  if (job.unownedMs === null || job.unownedMs < limits.graceMs) return "wait";
  return "reap";
};

describe("every combination of mark, launcher, monitor, worker and age", () => {
  const marks = [
    null,
    ...[0, 900_000, 900_001].flatMap((ageMs) => [true, false].map((ownerLive) => ({ ageMs, ownerLive }))),
  ];
  const launchers = [null, { ageMs: 0 }, { ageMs: 900_001 }];
  const monitors = [
    null,
    monitor(),
    monitor({ workerAlive: false }),
    monitor({ ageMs: 7_200_001 }),
    monitor({ silentMs: 1_800_001 }),
    monitor({ silentMs: 1_800_001, stallMs: 0 }),
  ];
  const cases = marks.flatMap((mark) =>
    launchers.flatMap((launcher) =>
      monitors.flatMap((monitor) =>
        [null, 0, 59_999, 60_000].flatMap((unownedMs) =>
          [true, false].map((livenessEnabled) => ({
            job: { mark, launcher, monitor, unownedMs },
            livenessEnabled,
          })),
        ),
      ),
    ),
  );

  test(`all ${cases.length} are decided as the table says`, () => {
    for (const { job, livenessEnabled } of cases) {
      const use = { ...limits, livenessEnabled };
      expect(decide(job, use).action.kind, JSON.stringify({ job, livenessEnabled })).toBe(expected(job, use));
    }
  });

  test("a mark counts as leaked exactly when its monitor has ended, whether marks are looked at or not", () => {
    for (const { job, livenessEnabled } of cases) {
      const leaked = job.mark !== null && !job.mark.ownerLive;
      expect(decide(job, { ...limits, livenessEnabled }).dropLeakedMark).toBe(leaked);
    }
  });
});

test.each<[string, Partial<JobView>, Partial<ReaperLimits>, ReaperAction]>([
  [
    "a live finalizer whose process exited long ago",
    { mark: { ageMs: 899_000, ownerLive: true }, unownedMs: 1e9 },
    {},
    { kind: "skip_live_finalizer" },
  ],
  ["a finalizer past its limit", { mark: { ageMs: 900_001, ownerLive: true } }, {}, { kind: "expire_finalizer" }],
  [
    "the same with marks switched off",
    { mark: { ageMs: 1, ownerLive: true }, unownedMs: 60_000 },
    { livenessEnabled: false },
    { kind: "reap" },
  ],
  [
    "a leaked mark, nobody else there",
    { mark: { ageMs: 1, ownerLive: false }, unownedMs: 60_000 },
    {},
    { kind: "reap" },
  ],
  [
    "a leaked mark beside a live monitor",
    { mark: { ageMs: 1, ownerLive: false }, monitor: monitor() },
    {},
    { kind: "leave" },
  ],
  ["seen unowned for the first time, with a grace of 0", {}, { graceMs: 0 }, { kind: "wait" }],
  ["seen unowned for the second time, with a grace of 0", { unownedMs: 0 }, { graceMs: 0 }, { kind: "reap" }],
  ["unowned, but not for the grace yet", { unownedMs: 59_999 }, {}, { kind: "wait" }],
  ["unowned for the grace", { unownedMs: 60_000 }, {}, { kind: "reap" }],
  [
    "a monitor whose process is gone without an exit seen",
    { monitor: monitor({ workerAlive: false }), unownedMs: 60_000 },
    {},
    { kind: "reap" },
  ],
  [
    "past its timeout and silent: the timeout is said",
    { monitor: monitor({ ageMs: 7_200_001, silentMs: 7_200_001 }) },
    {},
    { kind: "end_run", as: "timed_out" },
  ],
  ["silent for too long", { monitor: monitor({ silentMs: 1_800_001 }) }, {}, { kind: "end_run", as: "stalled" }],
  ["silent, with the stall timeout off", { monitor: monitor({ silentMs: 1e9, stallMs: 0 }) }, {}, { kind: "leave" }],
  ["a launch that hangs", { launcher: { ageMs: 900_001 } }, {}, { kind: "end_launch" }],
])("%s", (_, over, overLimits, action) => {
  expect(decide(view(over), { ...limits, ...overLimits }).action).toEqual(action);
});
