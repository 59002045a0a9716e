import { STAGING_STAGE } from "@orchestrator/shared/domain.ts";
import fc from "fast-check";
import { type Exit, PAUSE_TARGETS, RESULTS, type ResultName, type Step, ZOMBIE_DEEDS } from "./step.ts";
import { PIPELINE, REPOS } from "./surroundings.ts";

const at = fc.constantFrom(0, -1, 1, 2, 3);
const stageName = fc.constantFrom(...PIPELINE.stages.map(({ name }) => name));

const step = <D extends Step["do"]>(
  what: D,
  fields: { [K in keyof Omit<Extract<Step, { do: D }>, "do">]: fc.Arbitrary<Extract<Step, { do: D }>[K]> },
): fc.Arbitrary<Step> => fc.record({ do: fc.constant(what), ...fields } as never) as fc.Arbitrary<Step>;

type Weighted<T> = [weight: number, of: fc.Arbitrary<T> | T];

const weighted = <const T>(choices: Weighted<T>[]): fc.Arbitrary<T> =>
  fc.oneof(
    ...choices.map(([weight, of]) => ({ weight, arbitrary: of instanceof fc.Arbitrary ? of : fc.constant(of) })),
  ) as fc.Arbitrary<T>;

const seldom = weighted([
  [6, false],
  [1, true],
]);

/** What goes well is the more frequent, so that tasks get somewhere. */
const result: fc.Arbitrary<ResultName> = weighted<ResultName>([
  [6, "passed"],
  [5, fc.constantFrom(...RESULTS)],
]);
const exit: fc.Arbitrary<Exit> = weighted<Exit>([
  [6, "ok"],
  [1, "code"],
  [1, "signal"],
]);

const create = step("create", {
  item: fc.nat(9),
  repo: fc.constantFrom(...REPOS),
  stage: fc.option(fc.oneof(stageName, fc.constantFrom("development", "review", STAGING_STAGE)), { freq: 8 }),
  priority: fc.constantFrom(0, 0, 5),
  sharedBranch: seldom,
});

/** What there is to do when a run begins. */
export const arbitraryTasks: fc.Arbitrary<Step[]> = fc.array(create, { minLength: 3, maxLength: 6, size: "max" });

const ofTasks: fc.Arbitrary<Step> = weighted([
  [4, create],
  [3, step("cancel", { at, reason: fc.boolean() })],
  [6, step("retry", { at, note: fc.boolean() })],
  [8, step("approve", { at, wrongStage: seldom })],
  [5, step("return", { at, to: stageName })],
]);

const ofPeople: fc.Arbitrary<Step> = weighted([
  [26, ofTasks],
  [1, step("pause", { what: fc.constantFrom(...PAUSE_TARGETS), reason: fc.constantFrom("a", "b") })],
  [2, step("resume", { what: fc.constantFrom(...PAUSE_TARGETS) })],
]);

const claimOne = step("claim", {});
const settleToo = step("settle", {
  at,
  how: weighted([
    [2, "written"],
    [1, "rolled_back"],
  ]),
});

const ofRuns: fc.Arbitrary<Step> = weighted([
  [6, claimOne],
  [5, step("start", { at, adopts: seldom, dark: seldom })],
  [5, step("exit", { at, as: exit })],
  [5, step("finalize", { at, result })],
  [
    5,
    step("settle", {
      at,
      how: weighted([
        [5, "written"],
        [1, "rolled_back"],
        [2, "answer_lost"],
      ]),
    }),
  ],
  [1, step("output", { at })],
  [2, step("vanish", { at })],
  [2, step("die", { at })],
  [2, step("hold", { at, on: fc.boolean() })],
]);

/** From a second to more than any of the limits. */
const pass = step("pass", { seconds: fc.constantFrom(1, 10, 30, 61, 61, 300, 901, 901, 1_801, 3_601, 7_201) });

const ofSchedulers: fc.Arbitrary<Step> = weighted([
  [10, step("sweep", {})],
  [8, pass],
  [6, step("pass_until_due", {})],
  [1, step("set_clock", { minutes: fc.constantFrom(60, -60) })],
  [1, step("shut_down", {})],
  [
    2,
    step("restart", {
      crashAt: fc.option(
        fc.record({ job: fc.nat(2), when: fc.constantFrom("before_commit" as const, "after" as const) }),
      ),
    }),
  ],
  [1, step("take_over", {})],
  [3, step("zombie", { at, deed: fc.constantFrom(...ZOMBIE_DEEDS) })],
]);

/**
 * Not a settle for the first of two: what it leads to in memory comes after its commit, and so after the other. For the same
 * reason not two claims, which the dispatcher makes one after the other, nor a claim beside a pause.
 */
const together: fc.Arbitrary<Step> = weighted([
  [3, step("together", { first: ofPeople, second: fc.oneof(ofPeople, settleToo) })],
  [1, step("together", { first: claimOne, second: fc.oneof(ofPeople, settleToo) })],
  [1, step("together", { first: ofTasks, second: claimOne })],
]);

const one = (arbitrary: fc.Arbitrary<Step>): fc.Arbitrary<Step[]> => arbitrary.map((single) => [single]);

const newest = { at: -1 } as const;
const claim: Step = { do: "claim" };
const start: Step = { do: "start", ...newest, adopts: false, dark: false };
const settle: Step = { do: "settle", ...newest, how: "written" };

const workOff = (as: Exit, came: ResultName): Step[] => [
  start,
  { do: "exit", ...newest, as },
  { do: "finalize", ...newest, result: came },
  settle,
];

const times = (n: number, steps: readonly Step[]): Step[] => Array.from({ length: n }, () => steps).flat();

/** A job from its claim to its settle without a pause, so that tasks come far in few commands. */
const wholeRun: fc.Arbitrary<Step[]> = fc
  .tuple(exit, result)
  .map(([as, came]): Step[] => [{ do: "pass_until_due" }, claim, ...workOff(as, came)]);

/** The same ill luck over and over: what is bounded has to come to its bound. Then a person has it tried again. */
const illLuck: fc.Arbitrary<Step[]> = fc
  .tuple(
    fc.integer({ min: 2, max: 11 }),
    weighted<ResultName>([
      [3, fc.constantFrom(...RESULTS)],
      [1, "turned_down"],
    ]),
    at,
    result,
  )
  .map(([n, came, task, anew]) => [
    ...times(n, [{ do: "pass_until_due" }, claim, ...workOff("ok", came)]),
    { do: "retry", at: task, note: true },
    claim,
    ...workOff("ok", anew),
  ]);

const restarts: fc.Arbitrary<Step[]> = fc
  .integer({ min: 2, max: 6 })
  .map((n) => times(n, [claim, start, { do: "restart", crashAt: null }]));

const place = fc.record({
  stage: fc.constantFrom("development", "review", STAGING_STAGE),
  repo: fc.constantFrom(...REPOS),
});
/** Three tasks that have everything in common, or only an agent, a repository, staging, or nothing. */
const places = weighted([
  [1, place.map((one) => [one, one, one])],
  [1, fc.tuple(place, place, place)],
]);

/** A fault of the surroundings that several tasks meet in a row, what people do meanwhile, and the probe after it. */
const sameFault: fc.Arbitrary<Step[]> = fc
  .tuple(
    fc.constantFrom<ResultName>("git_error", "launch_error", "deferred"),
    places,
    fc.array(fc.oneof(ofPeople, ofSchedulers), { maxLength: 1 }),
    fc.array(
      weighted([
        [2, ofPeople],
        [1, ofSchedulers],
        [1, { do: "restart", crashAt: null }],
      ]),
      { maxLength: 1 },
    ),
    result,
  )
  .map(([came, where, meanwhile, afterwards, ofProbe]): Step[] => {
    const tasks = where.map(({ repo, stage }, n): Step => {
      return { do: "create", item: 7 + n, repo, stage, priority: 5, sharedBranch: false };
    });
    const run: Step[] =
      came === "launch_error"
        ? [claim, { do: "finalize", ...newest, result: came }, settle]
        : [claim, ...workOff("ok", came)];
    const soon: Step = { do: "pass", seconds: 61 };
    const probe: Step[] = [soon, claim, ...workOff("ok", ofProbe), soon, claim];
    return [...tasks, ...run, ...run, ...meanwhile, ...run, ...afterwards, ...probe];
  });

/** Somebody who worked on a run no longer does, or does so for too long, and the reaper looks. */
const reaped: fc.Arbitrary<Step[]> = fc
  .tuple(
    fc.constantFrom<Step[]>(
      [],
      [{ do: "die", ...newest }],
      [start, { do: "vanish", ...newest }],
      [start, { do: "die", ...newest }],
      [start, { do: "exit", ...newest, as: "ok" }, { do: "die", ...newest }],
      [start, { do: "exit", ...newest, as: "ok" }],
    ),
    fc.constantFrom(61, 901, 1_801, 7_201),
  )
  .map(([way, seconds]) => [claim, ...way, { do: "sweep" }, { do: "pass", seconds }, { do: "sweep" }]);

/** A process whose end nobody was told of, and which is told of when its job runs anew. */
const late: fc.Arbitrary<Step[]> = fc
  .tuple(
    fc.constantFrom<Step[]>([], [claim], [claim, start], [claim, start, { do: "exit", ...newest, as: "ok" }]),
    result,
  )
  .map(([anew, came]) => [
    ...[claim, start, { do: "vanish", ...newest } as const, { do: "sweep" } as const],
    ...[{ do: "pass", seconds: 61 } as const, { do: "sweep" } as const, { do: "pass_until_due" } as const, ...anew],
    ...[{ do: "exit", at: 0, as: "ok" } as const, { do: "sweep" } as const],
    ...[{ do: "finalize", at: 0, result: came } as const, { do: "settle", at: 0, how: "written" } as const],
  ]);

/** A person has a task wait again, and lets it go on. */
const sentBack: fc.Arbitrary<Step[]> = at.map((task) => [
  { do: "return", at: task, to: "analysis" },
  { do: "approve", at: task, wrongStage: false },
]);

/** A command: one step, or several that make a whole. */
export const arbitrarySteps: fc.Arbitrary<Step[]> = weighted([
  [50, one(ofRuns)],
  [15, one(ofPeople)],
  [20, one(ofSchedulers)],
  [5, one(together)],
  [6, wholeRun],
  [1, illLuck],
  [1, restarts],
  [2, sameFault],
  [3, reaped],
  [2, late],
  [2, sentBack],
]);
