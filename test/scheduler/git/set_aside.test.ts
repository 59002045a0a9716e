import { afterEach, beforeEach, expect, test } from "vitest";
import { setAside } from "../../../services/scheduler/git/set_aside.ts";
import { BRANCH, type Fixture, makeFixture } from "./fixture.ts";

const RUN = "refs/orchestrator/runs/1";
const WIP = "refs/orchestrator/wip/1";

let f: Fixture;
let other: string;
beforeEach(async () => {
  f = await makeFixture();
  other = await f.commitAtRemote(BRANCH, { "other.txt": "x" });
  await f.mirror.fetch();
});
afterEach(() => f.remove());

const aside = (fence = async () => {}) => setAside({ git: f.git, mirror: f.mirror, runId: 1, fence });
const old = (commit: string): string => `refs/orchestrator/old/1/${commit}`;
const refs = async (): Promise<Record<string, string>> => {
  const listing = await f.ask("for-each-ref", "--format=%(refname) %(objectname)", "refs/orchestrator");
  return Object.fromEntries(listing === "" ? [] : listing.split("\n").map((line) => line.split(" ")));
};

test.each<[what: string, standing: (f: Fixture) => Record<string, string>]>([
  ["nothing", () => ({})],
  ["the work of a run", () => ({ [RUN]: f.base })],
  ["what a run left", () => ({ [WIP]: f.base })],
  ["both", () => ({ [RUN]: f.base, [WIP]: other })],
  ["both, at one commit", () => ({ [RUN]: f.base, [WIP]: f.base })],
  ["something for the third time", () => ({ [RUN]: f.base, [old(f.base)]: f.base, [old(other)]: other })],
])("%s stands under the number: afterwards nothing does, and all of it is kept", async (_, make) => {
  const standing = make(f);
  for (const [ref, commit] of Object.entries(standing)) await f.mirror.updateRef(ref, commit, null);
  await f.ask("pack-refs", "--all");
  const moved = [RUN, WIP].flatMap((ref) => (standing[ref] === undefined ? [] : [old(standing[ref])]));
  expect(await aside()).toEqual([...new Set(moved)]);
  expect(await refs()).toEqual(Object.fromEntries(Object.values(standing).map((commit) => [old(commit), commit])));
  expect(await aside()).toEqual([]);
});

test("other numbers are left alone, also such as begin like it", async () => {
  const standing = { "refs/orchestrator/runs/10": f.base, "refs/orchestrator/wip/11": other };
  for (const [ref, commit] of Object.entries(standing)) await f.mirror.updateRef(ref, commit, null);
  expect(await aside()).toEqual([]);
  expect(await refs()).toEqual(standing);
});

test("a scheduler that was superseded moves nothing; where there is nothing to move it is not asked", async () => {
  const lost = async (): Promise<void> => {
    throw new Error("another scheduler has taken over");
  };
  expect(await aside(lost)).toEqual([]);
  await f.mirror.updateRef(RUN, f.base, null);
  await expect(aside(lost)).rejects.toThrow("taken over");
  expect(await refs()).toEqual({ [RUN]: f.base });
});
