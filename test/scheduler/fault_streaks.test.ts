import { expect, test } from "vitest";
import { afterEnd, type Place, type Streaks, scopeOfFault } from "../../services/scheduler/fault_streaks.ts";
import type { RunFinding } from "../../services/scheduler/run_finding.ts";

/** `agent repo` or `agent repo stage`; the stage is one that an agent works where none is named. */
const placeOf = (text: string): Place => {
  const [agent = "", repo = "", stage = "development"] = text.split(" ");
  return { agent, repo, stage };
};

test.each([
  ["git_fetch", "analyst shop analysis", "repo:shop"],
  ["git_push", "deployer shop deploy-staging", "repo:shop"],
  ["finalizer_expired", "analyst shop analysis", "repo:shop"],
  ["prompt_override", "analyst shop analysis", "repo:shop"],
  ["command_not_found", "analyst shop analysis", "agent:analyst"],
  ["killed", "deployer shop deploy", "agent:deployer"],
  ["killed", "deployer shop deploy-staging", "staging"],
  ["stager_lost", "deployer shop deploy-staging", "staging"],
])("%s of %s points to %s", (fault, place, scope) => {
  expect(scopeOfFault(fault, placeOf(place))).toBe(scope);
});

/**
 * A run of the task at that place, and the class of the fault that it met; without one it went well, null: it found nothing
 * out.
 */
type Row = [task: number, place: string, fault?: string | null];

const findingOf = (fault: string | null | undefined): RunFinding => {
  if (fault === undefined) return { kind: "well" };
  return fault === null ? { kind: "nothing" } : { kind: "fault", class: fault };
};

/** What is paused, one after the other, by runs that end like this, where everything stays paused that was. */
const pausesOf = (ends: readonly Row[], paused: readonly string[] = []): string[] => {
  let streaks: Streaks = new Map();
  const pauses: string[] = [];
  for (const [taskId, place, fault] of ends) {
    const now = new Set([...paused, ...pauses]);
    const after = afterEnd(streaks, { ...placeOf(place), taskId, finding: findingOf(fault) }, now);
    streaks = after.streaks;
    if (after.pause !== null) pauses.push(after.pause);
  }
  return pauses;
};

const STAGING = "deploy-staging";

test.each<[title: string, ends: Row[], paused: string[]]>([
  // All have the same in common: the class tells.
  ["a git fault", [1, 2, 3].map((n) => [n, "dev shop", "git_fetch"]), ["repo:shop"]],
  ["an agent's fault", [1, 2, 3].map((n) => [n, "dev shop", "command_not_found"]), ["agent:dev"]],
  ["a stager's fault", [1, 2, 3].map((n) => [n, `dev shop ${STAGING}`, "stager_lost"]), ["staging"]],
  ["a git fault in staging", [1, 2, 3].map((n) => [n, `dev shop ${STAGING}`, "git_push"]), ["repo:shop"]],
  // They have one thing in common, be it not what the class points to.
  [
    "one repository, three agents",
    [
      [1, "dev shop", "launch_timeout"],
      [2, "test shop", "launch_timeout"],
      [3, "docs shop", "launch_timeout"],
    ],
    ["repo:shop"],
  ],
  [
    "one agent, three repositories",
    [
      [1, "dev shop", "git_fetch"],
      [2, "dev blog", "git_fetch"],
      [3, "dev wiki", "git_fetch"],
    ],
    ["agent:dev"],
  ],
  [
    "staging, three agents and repositories",
    [
      [1, `dev shop ${STAGING}`, "git_fetch"],
      [2, `test blog ${STAGING}`, "git_fetch"],
      [3, `docs wiki ${STAGING}`, "git_fetch"],
    ],
    ["staging"],
  ],
  // They have two things in common, and the class points to neither.
  [
    "staging by one agent, three repositories",
    [
      [1, `dev shop ${STAGING}`, "git_fetch"],
      [2, `dev blog ${STAGING}`, "git_fetch"],
      [3, `dev wiki ${STAGING}`, "git_fetch"],
    ],
    ["staging"],
  ],
  [
    "one repository's staging by one agent, between others' that went well",
    [
      [1, `dev shop ${STAGING}`, "stager_lost"],
      [8, `test blog ${STAGING}`],
      [2, `dev shop ${STAGING}`, "stager_lost"],
      [9, `test blog ${STAGING}`],
      [3, `dev shop ${STAGING}`, "stager_lost"],
    ],
    ["repo:shop"],
  ],
  // One of many is at fault.
  [
    "a repository, whose agent works for others as well",
    [
      [1, "dev shop", "git_push"],
      [7, "dev blog"],
      [2, "dev shop", "git_push"],
      [8, "dev wiki"],
      [3, "dev shop", "git_push"],
    ],
    ["repo:shop"],
  ],
  [
    "an agent, whose repository others work for as well",
    [
      [1, "dev shop", "command_not_found"],
      [7, "test shop"],
      [2, "dev shop", "command_not_found"],
      [8, "docs shop"],
      [3, "dev shop", "command_not_found"],
    ],
    ["agent:dev"],
  ],
  [
    "a repository with one agent, then the others that it works for, in runs that were under way",
    [
      [1, "dev shop", "git_fetch"],
      [2, "dev shop", "git_fetch"],
      [3, "dev shop", "git_fetch"],
      [4, "dev shop", "git_fetch"],
      [5, "dev shop", "git_fetch"],
      [6, "dev blog", "git_fetch"],
      [7, "dev wiki", "git_fetch"],
    ],
    ["repo:shop"],
  ],
  [
    "an agent in one repository, then another agent there",
    [
      [1, "dev shop", "command_not_found"],
      [2, "dev blog", "command_not_found"],
      [3, "dev shop", "command_not_found"],
      [4, "test shop", "command_not_found"],
    ],
    ["agent:dev"],
  ],
  [
    "a repository, and then the same in two others of which one agent had met it before",
    [
      [1, "dev blog", "git_fetch"],
      [2, "test shop", "git_fetch"],
      [3, "dev shop", "git_fetch"],
      [4, "test shop", "git_fetch"],
      [5, "dev wiki", "git_fetch"],
    ],
    ["repo:shop"],
  ],
  [
    "a repository and, by another fault, an agent",
    [
      [1, "dev shop", "git_fetch"],
      [2, "dev shop", "git_fetch"],
      [3, "dev shop", "git_fetch"],
      [4, "dev blog", "killed"],
      [5, "dev wiki", "killed"],
      [6, "dev blog", "killed"],
    ],
    ["repo:shop", "agent:dev"],
  ],
  [
    "staging, by a stager that cannot be reached between its crashes",
    [
      [1, `dev shop ${STAGING}`, "stager_lost"],
      [2, `dev shop ${STAGING}`, null],
      [2, `dev shop ${STAGING}`, "stager_lost"],
      [3, `dev shop ${STAGING}`, null],
      [3, `dev shop ${STAGING}`, "stager_lost"],
    ],
    ["staging"],
  ],
  // It is not three tasks in a row.
  [
    "two tasks",
    [
      [1, "dev shop", "git_fetch"],
      [2, "dev shop", "git_fetch"],
    ],
    [],
  ],
  ["one task, over and over", [1, 1, 1, 1].map((n) => [n, "dev shop", "git_fetch"]), []],
  [
    "one that went well between",
    [
      [1, "dev shop", "git_fetch"],
      [2, "dev shop", "git_fetch"],
      [9, "dev shop"],
      [3, "dev shop", "git_fetch"],
    ],
    [],
  ],
  ["none that found anything out", [1, 2, 3].map((n) => [n, "dev shop", null]), []],
  [
    "two, and one that found nothing out",
    [
      [1, "dev shop", "git_fetch"],
      [2, "dev shop", "git_fetch"],
      [3, "dev shop", null],
    ],
    [],
  ],
  [
    "another class between",
    [
      [1, "dev shop", "git_fetch"],
      [2, "dev shop", "git_fetch"],
      [3, "dev shop", "git_push"],
      [4, "dev shop", "git_fetch"],
    ],
    [],
  ],
  [
    "nothing in common but the class",
    [
      [1, "dev shop", "git_fetch"],
      [2, "test blog", "git_fetch"],
      [3, "docs wiki", "git_fetch"],
    ],
    [],
  ],
])("the same on three tasks in a row: %s", (_title, ends, paused) => {
  expect(pausesOf(ends)).toEqual(paused);
});

test("what is paused explains every tool error within it, of whatever class, of the runs under way and of its probes", () => {
  const hung = [1, 2, 3, 4].map((n): Row => [n, "dev shop", "launch_timeout"]);
  const refused = [5, 6, 7, 8].map((n): Row => [n, "dev shop", "git_push"]);
  expect(pausesOf([...hung, ...refused], ["repo:shop"])).toEqual([]);
});

test("a run that went well within what is paused ends the row of its agent all the same", () => {
  const killed = (task: number, repo: string): Row => [task, `dev ${repo}`, "killed"];
  const ends: Row[] = [killed(1, "blog"), killed(2, "wiki"), [3, "dev shop"], killed(4, "blog")];
  expect(pausesOf(ends, ["repo:shop"])).toEqual([]);
});
