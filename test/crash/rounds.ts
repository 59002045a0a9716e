import { FAULT_POINTS } from "@orchestrator/shared/fault_points.ts";
import { shuffled } from "./random.ts";
import type { ServiceName } from "./service.ts";

/** How one life of a service ends. */
export type Round =
  /** It kills itself at a point, for example `push.after:2`. */
  | { kind: "point"; point: string; fault: string }
  /** It is killed so many milliseconds after its start, wherever it is. */
  | { kind: "moment"; afterMs: number }
  /** It is killed as soon as a job runs. */
  | { kind: "at_work" }
  /** It is told to stop, and killed so many milliseconds into that. */
  | { kind: "stop"; afterMs: number; killAfterMs: number };

/** Points that are reached once in the life of a process. */
const ONCE = (point: string): boolean => point.startsWith("start.");

/** How often a point may be passed before it kills, so that the others of a busy queue get on. */
const MOST_PASSES = 4;

const LATEST_MS = { moment: 4_000, stop: 1_500 };

export const pointRound = (point: string, random: () => number): Round => {
  const nth = ONCE(point) ? 1 : 1 + Math.floor(random() * MOST_PASSES);
  return { kind: "point", point, fault: `${point}:${nth}` };
};

const randomRound = (random: () => number): Round => {
  const afterMs = Math.round(random() * LATEST_MS.moment);
  return random() < 0.8
    ? { kind: "moment", afterMs }
    : { kind: "stop", afterMs: afterMs + 500, killAfterMs: Math.round(random() * LATEST_MS.stop) };
};

/** Every point of a service once, in random order. */
export const everyPoint = (service: ServiceName, random: () => number): Round[] =>
  shuffled<string>(FAULT_POINTS[service], random).map((point) => pointRound(point, random));

/** So many rounds, about half of them at points: every point as often as any other, the rest at random moments. */
export const manyRounds = (service: ServiceName, count: number, random: () => number): Round[] => {
  const rounds: Round[] = [];
  while (rounds.length < count) {
    const points = everyPoint(service, random);
    rounds.push(...points, ...points.map(() => randomRound(random)));
  }
  return shuffled(rounds.slice(0, count), random);
};
