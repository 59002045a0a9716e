import { FAULT_POINTS } from "@orchestrator/shared/fault_points.ts";
import { expect, test } from "vitest";
import { tellReport } from "./figures.ts";
import { runCrashes } from "./harness.ts";
import { seededRandom } from "./random.ts";
import { everyPoint } from "./rounds.ts";

const SEED = 4;
const LONGEST_MS = 15 * 60_000;

test(
  "after a kill at every point nothing is lost, done twice or left running, and every item is done",
  async () => {
    const random = seededRandom(SEED);
    const rounds = { scheduler: everyPoint("scheduler", random), stager: everyPoint("stager", random) };
    const report = await runCrashes({ seed: SEED, rounds });
    process.stdout.write(`${JSON.stringify({ crash: report })}\n`);
    expect(report.violations, tellReport(report)).toEqual([]);
    const points = (["scheduler", "stager"] as const).flatMap((name) =>
      FAULT_POINTS[name].map((point) => `${name} ${point}`),
    );
    expect(points.filter((point) => report.killsPerPoint[point] === undefined)).toEqual([]);
    expect(report).toMatchObject({ advancedTwice: 0, lost: 0, leftRunning: 0, paidTwice: 0, otherViolations: 0 });
    expect(report.recoveries).toBeGreaterThan(0);
  },
  LONGEST_MS,
);
