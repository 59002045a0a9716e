import {
  appendMarker,
  countMarkers,
  DEFER_MARKER,
  decideDefer,
  firstMarkerAt,
  neutralise,
} from "@orchestrator/shared/defer.ts";
import fc from "fast-check";
import { describe, expect, test } from "vitest";

const T0 = Date.parse("2030-01-02T03:04:05.678Z");
const at = (ms: number): string => new Date(ms).toISOString();
const deferredAt = (...times: number[]): string =>
  times.reduce((content, time) => appendMarker(content, at(time), "no docker"), "Ship the thing.");

describe("the marker is the counter", () => {
  test("each deferral adds one line and one to the count", () => {
    const once = appendMarker("Ship the thing.", at(T0), "docker: command not found");
    expect(once).toBe("Ship the thing.\n[staging-infra-defer] 2030-01-02T03:04:05.678Z docker: command not found");
    const twice = appendMarker(once, at(T0 + 60_000), "again");
    expect(countMarkers(twice)).toBe(2);
    expect(twice.startsWith(`${once}\n`)).toBe(true);
  });

  test.each([
    ["", 0],
    ["nothing here", 0],
    ["staging-infra-defer without brackets", 0],
    [deferredAt(T0), 1],
    [deferredAt(T0, T0, T0), 3],
  ])("countMarkers(%j)", (content, count) => expect(countMarkers(content)).toBe(count));

  test.each([
    ["no marker", "nothing", null],
    ["the earliest of several", deferredAt(T0 + 5, T0, T0 + 9), T0],
    ["a marker without a time", `${DEFER_MARKER} some day`, null],
    ["a marker with an impossible time", `${DEFER_MARKER} 2030-99-99T00:00:00.000Z x`, null],
  ])("firstMarkerAt: %s", (_, content, expected) => expect(firstMarkerAt(content)).toBe(expected));

  test("no text from outside can count as a marker, nor forge one when it is put together again", () => {
    expect(neutralise(`see ${DEFER_MARKER} and ${DEFER_MARKER}`)).toBe(
      "see (staging-infra-defer) and (staging-infra-defer)",
    );
    expect(countMarkers(neutralise(`[staging-infra-${DEFER_MARKER}defer]`))).toBe(0);
    fc.assert(
      fc.property(fc.array(fc.constantFrom("[", "]", "staging-infra-defer", DEFER_MARKER, " ")), (parts) => {
        expect(countMarkers(neutralise(parts.join("")))).toBe(0);
      }),
    );
  });

  test("whatever the reason, exactly one line and one marker are added, without control characters", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 2000 }), (reason) => {
        const content = appendMarker("before", at(T0), `${reason}${DEFER_MARKER}\r\n\u0000\u2028\ud800`);
        expect(countMarkers(content)).toBe(1);
        const lines = content.split(/[\n\r\u2028\u2029]/);
        expect(lines).toHaveLength(2);
        expect(lines[1]).toMatch(/^[^\u0000-\u001f\u007f-\u009f]{1,600}$/u);
        expect(content.isWellFormed()).toBe(true);
      }),
    );
  });
});

describe("decideDefer", () => {
  const limits = { delayMs: 30_000, maxDefers: 10, maxMs: 6 * 3_600_000 };
  const markers = (n: number): string => deferredAt(...Array.from({ length: n }, (_, i) => T0 + i));

  test.each([
    [0, 30_000],
    [1, 60_000],
    [2, 120_000],
    [3, 240_000],
    [4, 480_000],
    [5, 600_000],
    [9, 600_000],
  ])("after %i markers the next run is due in %i ms", (n, delay) => {
    expect(decideDefer({ ...limits, taskContent: markers(n), now: T0 + 1000 })).toEqual({
      kind: "defer",
      availableAtMs: T0 + 1000 + delay,
      n,
    });
  });

  test("at the tenth marker it is blocked", () => {
    expect(decideDefer({ ...limits, taskContent: markers(10), now: T0 + 1000 })).toEqual({
      kind: "block",
      reason: "put off 10 times, which is all that ORCH_STAGING_MAX_DEFERS allows",
    });
  });

  test("exactly the longest time after the first marker is still put off, one millisecond more is not", () => {
    const view = { ...limits, taskContent: markers(2) };
    expect(decideDefer({ ...view, now: T0 + limits.maxMs }).kind).toBe("defer");
    const blocked = decideDefer({ ...view, now: T0 + limits.maxMs + 1 });
    expect(blocked).toEqual({ kind: "block", reason: expect.stringContaining("2030-01-02T03:04:05.678Z") });
  });

  test.each([
    ["no deferral is allowed", { taskContent: "", maxDefers: 0 }, "block"],
    ["a clock that went back", { taskContent: markers(1), now: T0 - 86_400_000 }, "defer"],
    ["a marker without a time still counts", { taskContent: DEFER_MARKER, maxDefers: 1 }, "block"],
    ["far more markers than doublings fit", { taskContent: markers(2000), maxDefers: 5000 }, "defer"],
  ])("%s", (_, change, kind) => {
    const decision = decideDefer({ ...limits, now: T0, ...change });
    expect(decision.kind).toBe(kind);
    if (decision.kind === "defer") expect(decision.availableAtMs).toBeLessThanOrEqual(T0 + 600_000);
  });
});
