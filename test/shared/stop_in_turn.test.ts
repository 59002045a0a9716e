import { exitCodeOf } from "@orchestrator/shared/exit.ts";
import { StopError, stopInTurn } from "@orchestrator/shared/stop_in_turn.ts";
import { expect, test } from "vitest";
import { deferred } from "../helpers/deferred.ts";
import { keepLog } from "../scheduler/faults/kept_log.ts";

const withCode = (code: string) => Object.assign(new Error(code), { code });

test("one after the other, each when the one before it has stopped", async () => {
  const { log, said } = keepLog();
  const first = deferred();
  const stopped: string[] = [];
  const stopping = stopInTurn(
    [
      ["the first", () => first.promise.then(() => stopped.push("first"))],
      ["the second", () => stopped.push("second")],
    ],
    log,
  );
  first.resolve();
  await stopping;
  expect(stopped).toEqual(["first", "second"]);
  expect(said("")).toEqual([]);
});

test("one that fails, by rejecting or throwing, keeps none after it from being stopped, and is logged and told", async () => {
  const { log, said } = keepLog();
  const stopped: string[] = [];
  const errors = [new Error("rejected"), new Error("thrown")];
  const error = await stopInTurn(
    [
      ["the reaper", () => Promise.reject(errors[0])],
      [
        "the lease",
        () => {
          throw errors[1];
        },
      ],
      ["the lock", () => stopped.push("lock")],
    ],
    log,
  ).catch((thrown: unknown) => thrown);
  expect(stopped).toEqual(["lock"]);
  expect(error).toBeInstanceOf(StopError);
  expect((error as StopError).errors).toEqual(errors);
  expect(said("").map(({ level, msg }) => [level, msg])).toEqual([
    ["error", "the reaper could not be stopped in order; going on with the rest"],
    ["error", "the lease could not be stopped in order; going on with the rest"],
  ]);
});

test("what failed inside of a part is not logged twice", async () => {
  const { log, said } = keepLog();
  const inner = () => stopInTurn([["the reaper", () => Promise.reject(withCode("fenced_off"))]], log);
  const error = await stopInTurn([["the scheduler", inner]], log).catch((thrown: unknown) => thrown);
  expect((error as StopError).errors.map(String)).toEqual(["Error: fenced_off"]);
  expect(said("").length).toBe(1);
});

test.each([
  [["x"], 1],
  [["x", "storage_busy"], 73],
  [["fenced_off", "storage_busy", "x"], 75],
])("%j ends the process with %i: the worst of them", async (codes, exitCode) => {
  expect(exitCodeOf(new StopError(codes.map(withCode)))).toBe(exitCode);
});
