import type { RepoName } from "./surroundings.ts";

/** How an agent's process ends. */
export type Exit = "ok" | "code" | "signal";

/** What a run comes to; which of them are possible depends on the run. */
export const RESULTS = [
  "passed",
  "turned_down",
  "failed",
  "git_error",
  "launch_error",
  "needs_person",
  "branch_moved",
  "deferred",
  "defers_used_up",
  "stager_unreachable",
] as const;
export type ResultName = (typeof RESULTS)[number];

/** What a scheduler that was taken over tries all the same. */
export const ZOMBIE_DEEDS = [
  "claim",
  "create",
  "cancel",
  "retry",
  "approve",
  "return",
  "pause",
  "resume",
  "record",
  "settle",
  "requeue",
  "push",
  "sweep",
] as const;
export type ZombieDeed = (typeof ZOMBIE_DEEDS)[number];

export const PAUSE_TARGETS = [
  "all",
  "agent:developer",
  "agent:reviewer",
  "agent:deployer",
  "repo:shop",
  "repo:mill",
  "staging",
] as const;
export type PauseTargetName = (typeof PAUSE_TARGETS)[number];

/**
 * One atomic step of the queue, as data: what fast-check shrinks, a failure prints and a regression test replays. `at` says
 * which of those that it can be done with (tasks by id, runs by id), counted from 0 around and around; -1 is the newest.
 */
export type Step =
  | { do: "create"; item: number; repo: RepoName; stage: string | null; priority: number; sharedBranch: boolean }
  | { do: "claim" }
  /**
   * The run's agent is started, or its stager has answered; `adopts`: on a commit of the task's own that no settle has
   * recorded. `dark`: it may have been started, and nobody has recorded that it was.
   */
  | { do: "start"; at: number; adopts: boolean; dark: boolean }
  | { do: "output"; at: number }
  /** The worker has ended, and its monitor has seen it. */
  | { do: "exit"; at: number; as: Exit }
  /** The worker has ended, and its monitor has not seen it. */
  | { do: "vanish"; at: number }
  /** Collecting, judging and publishing are done; the settle is about to be written. */
  | { do: "finalize"; at: number; result: ResultName }
  /** The finalizer waits for a lock, or no longer does. */
  | { do: "hold"; at: number; on: boolean }
  | { do: "settle"; at: number; how: "written" | "rolled_back" | "answer_lost" }
  /** The monitor ends by an error that nobody foresaw. */
  | { do: "die"; at: number }
  | { do: "sweep" }
  | { do: "pass"; seconds: number }
  /** As much time as it takes until the next queued job is due. */
  | { do: "pass_until_due" }
  /** Somebody sets the wall clock. */
  | { do: "set_clock"; minutes: number }
  | { do: "cancel"; at: number; reason: boolean }
  | { do: "retry"; at: number; note: boolean }
  | { do: "approve"; at: number; wrongStage: boolean }
  | { do: "return"; at: number; to: string }
  | { do: "pause"; what: PauseTargetName; reason: string }
  | { do: "resume"; what: PauseTargetName }
  /** Everything that runs is asked to end, as at a stop. */
  | { do: "shut_down" }
  /** The process dies and another one starts; `crashAt`: the first to start dies too, at that job of its requeueing. */
  | { do: "restart"; crashAt: { job: number; when: "before_commit" | "after" } | null }
  /** Another scheduler takes over while this one goes on. */
  | { do: "take_over" }
  | { do: "zombie"; at: number; deed: ZombieDeed }
  /** Two at the same moment: they share one commit. */
  | { do: "together"; first: Step; second: Step };

/** As it is written in a test: `{ do: "settle", at: 0, how: "written" }`. */
export const showStep = (step: Step): string => `{ ${Object.entries(step).map(showField).join(", ")} }`;

const showField = ([key, value]: [string, unknown]): string =>
  `${key}: ${isStep(value) ? showStep(value) : JSON.stringify(value)}`;

const isStep = (value: unknown): value is Step => typeof value === "object" && value !== null && "do" in value;
