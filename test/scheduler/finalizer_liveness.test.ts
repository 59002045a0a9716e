import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { FinalizerLiveness } from "../../services/scheduler/finalizer_liveness.ts";
import { FakeClock } from "../helpers/fake_clock.ts";

const setup = () => {
  const clock = new FakeClock("2026-01-01T00:00:10.700Z");
  const liveness = new FinalizerLiveness(clock);
  const mark = (jobId: number, runId: number) => {
    const abort = new AbortController();
    liveness.mark(jobId, { runId, stage: "review", abort });
    return abort;
  };
  return { clock, liveness, mark };
};

test("it imports nothing", async () => {
  const source = await readFile(new URL("../../services/scheduler/finalizer_liveness.ts", import.meta.url), "utf8");
  expect(source).not.toMatch(/^\s*(import|export .* from)|require\(|import\(/m);
});

test("it begins empty and shows what is marked as the contract has it", () => {
  const { liveness, mark } = setup();
  expect(liveness.snapshot()).toEqual({});
  mark(7, 9);
  expect(liveness.snapshot()).toEqual({ "7": { run_id: 9, stage: "review", started_ts: 1767225610 } });
  expect(liveness.jobIds()).toEqual([7]);
  liveness.clear(7, 9);
  expect(liveness.snapshot()).toEqual({});
});

test("a mark takes the place of an earlier run's, and leaves that of a later one", () => {
  const { liveness, mark } = setup();
  mark(7, 9);
  mark(7, 10);
  const late = mark(7, 9);
  expect(liveness.see(7)?.runId).toBe(10);
  expect(liveness.abort(7, 9, new Error("not this one"))).toBe(false);
  expect(late.signal.aborted).toBe(false);
  expect(liveness.clear(7, 9)).toBe(false);
  expect(liveness.see(7)?.runId).toBe(10);
});

test("a clear takes away only the mark of the run that it names", () => {
  const { liveness, mark } = setup();
  mark(7, 9);
  mark(7, 10);
  expect(liveness.clear(7, 9)).toBe(false);
  expect(liveness.see(7)?.runId).toBe(10);
  expect(liveness.clear(7, 10)).toBe(true);
  expect(liveness.clear(7, 10)).toBe(false);
});

test("all that are marked can be aborted at once, for one reason; their marks are theirs to clear", () => {
  const { liveness, mark } = setup();
  const aborts = [mark(7, 9), mark(8, 10)];
  const reason = new Error("another scheduler has taken over");
  liveness.abortAll(reason);
  expect(aborts.map(({ signal }) => signal.reason)).toEqual([reason, reason]);
  expect(liveness.jobIds()).toEqual([7, 8]);
});

test("ages go by the monotonic clock: an hour on the wall either way changes nothing", () => {
  const { clock, liveness, mark } = setup();
  mark(7, 9);
  clock.advance(1_000);
  clock.setWall(clock.now() + 3_600_000);
  expect(liveness.see(7)).toEqual({ runId: 9, ageMs: 1_000 });
  clock.setWall(clock.now() - 7_200_000);
  expect(liveness.see(7)).toEqual({ runId: 9, ageMs: 1_000 });
});

test("time on hold does not count, however often it is held", () => {
  const { clock, liveness, mark } = setup();
  mark(7, 9);
  clock.advance(100);
  liveness.hold(7, 9);
  clock.advance(5_000);
  liveness.hold(7, 9);
  clock.advance(5_000);
  expect(liveness.see(7)?.ageMs).toBe(100);
  liveness.resume(7, 9);
  liveness.resume(7, 9);
  clock.advance(50);
  expect(liveness.see(7)?.ageMs).toBe(150);
  liveness.hold(7, 8);
  clock.advance(50);
  expect(liveness.see(7)?.ageMs).toBe(200);
});

test("an abort reaches the finalizer of the run that it names, and no other", () => {
  const { liveness, mark } = setup();
  const abort = mark(7, 9);
  expect(liveness.abort(7, 8, new Error("other"))).toBe(false);
  expect(liveness.abort(8, 9, new Error("other"))).toBe(false);
  expect(abort.signal.aborted).toBe(false);
  expect(liveness.abort(7, 9, new Error("hung"))).toBe(true);
  expect(abort.signal.reason).toEqual(new Error("hung"));
});

test("nothing that is asked of a job without a mark throws", () => {
  const { liveness } = setup();
  liveness.hold(1, 1);
  liveness.resume(1, 1);
  expect([liveness.clear(1, 1), liveness.see(1), liveness.abort(1, 1, new Error("x"))]).toEqual([false, null, false]);
});

test("those that have tried to write for too long are aborted, once each; who works, or waits for a lock, goes on", () => {
  const { clock, liveness, mark } = setup();
  const [works, waits, late, stuck, again] = [1, 2, 3, 4, 5].map((jobId) => mark(jobId, jobId + 10));
  liveness.hold(2, 12, "lock");
  liveness.hold(4, 14, "write");
  liveness.hold(5, 15, "write");
  clock.advance(1);
  liveness.hold(3, 13, "write");
  liveness.resume(5, 15);
  liveness.hold(5, 15, "write");
  clock.advance(4_999);
  const reason = new Error("the scheduler stops");
  expect(liveness.abortWriting(5_000, reason)).toEqual([14]);
  expect(stuck?.signal.reason).toBe(reason);
  expect([works, waits, late, again].map((abort) => abort?.signal.aborted)).toEqual([false, false, false, false]);
  clock.advance(1);
  expect(liveness.abortWriting(5_000, reason)).toEqual([13, 15]);
  clock.advance(3_600_000);
  expect(liveness.abortWriting(5_000, reason)).toEqual([]);
});
