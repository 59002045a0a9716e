import { describe, expect, test } from "vitest";
import { StagerOutage } from "../../../services/scheduler/stager_outage.ts";

const MINUTE = 60_000;

const unreachable = { kind: "requeued", runId: 1, detail: { by: "stager_unreachable" } } as const;
const requeued = { kind: "requeued", runId: 1, detail: { by: "restart" } } as const;
const deferred = { kind: "deferred", runId: 1, detail: {} } as const;
const passed = { kind: "advanced", runId: 1, detail: { from: "deploy-staging", to: "deploy" } } as const;
const turnedDown = { kind: "returned", runId: 1, detail: { from: "deploy-staging", to: "development" } } as const;
const byPerson = { kind: "returned", runId: null, detail: { from: "deploy-staging", to: "development" } } as const;
const elsewhere = { kind: "advanced", runId: 1, detail: { from: "review", to: "testing" } } as const;

type Seen = Parameters<StagerOutage["see"]>[0];

/** The minutes at which somebody is told, of events at given minutes. */
const told = (...events: [minute: number, event: Seen][]): number[] => {
  const outage = new StagerOutage();
  return events.flatMap(([minute, event]) => (outage.see(event, minute * MINUTE) === null ? [] : [minute]));
};

const each = (from: number, to: number, event: Seen = unreachable): [number, Seen][] =>
  Array.from({ length: to - from + 1 }, (_, index) => [from + index, event]);

describe("a stager that cannot be reached", () => {
  test.each<[string, [number, Seen][], number[]]>([
    ["for less than ten minutes is nobody's matter", each(0, 9), []],
    ["for ten minutes is told", each(0, 10), [10]],
    ["for hours is told once", each(0, 300), [10]],
    [
      "whatever the jobs are",
      [...each(0, 5), ...each(6, 12).map(([at, e]) => [at, { ...e, runId: 2 }] as [number, Seen])],
      [10],
    ],
    ["between other requeues counts on", [[0, unreachable], ...each(1, 4, requeued), ...each(5, 12)], [10]],
    ["is well when a run passed", [...each(0, 9), [9, passed], ...each(10, 19)], []],
    ["is well when a run was turned down", [...each(0, 9), [9, turnedDown], ...each(10, 19)], []],
    ["is well when a run was deferred", [...each(0, 9), [9, deferred], ...each(10, 19)], []],
    ["is told of again in the next outage", [...each(0, 15), [16, passed], ...each(17, 40)], [10, 27]],
    ["is not well because a person sent the task back", [...each(0, 9), [9, byPerson], [10, unreachable]], [10]],
    ["is not well because another stage passed", [...each(0, 9), [9, elsewhere], [10, unreachable]], [10]],
    ["and was asked for again much later is another outage", [...each(0, 3), ...each(100, 105)], []],
    ["and was told of, and asked for again much later", [...each(0, 12), ...each(100, 110)], [10, 110]],
  ])("%s", (_, events, minutes) => {
    expect(told(...events)).toEqual(minutes);
  });

  test("it is said for how long", () => {
    const outage = new StagerOutage();
    outage.see(unreachable, 0);
    outage.see(unreachable, 9 * MINUTE);
    expect(outage.see(unreachable, 11.5 * MINUTE)).toBe(11.5 * MINUTE);
  });
});
