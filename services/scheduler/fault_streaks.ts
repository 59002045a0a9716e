import { STAGING_STAGE } from "@orchestrator/shared/domain.ts";
import { FINALIZER_EXPIRED, PROMPT_OVERRIDE } from "@orchestrator/shared/outcome_class.ts";
import type { RunFinding } from "./run_finding.ts";

/** So many different tasks in a row with the same class of tool error are no accident. */
export const TASKS_IN_A_ROW = 3;

/** Where a run belongs. */
export interface Place {
  agent: string;
  repo: string;
  stage: string;
}

/** How a run ended, and of which task it was. */
export interface End extends Place {
  taskId: number;
  finding: RunFinding;
}

/** What the latest runs within a scope have met in a row, and by task all the scopes of the run that met it last. */
interface Streak {
  class: string;
  tasks: ReadonlyMap<number, readonly string[]>;
}

export type Streaks = ReadonlyMap<string, Streak>;

/** What can be paused for a fault that a run has met, named as in `queue_state`. */
export const scopesOf = ({ agent, repo, stage }: Place): string[] => [
  `agent:${agent}`,
  `repo:${repo}`,
  ...(stage === STAGING_STAGE ? ["staging"] : []),
];

const OF_THE_REPOSITORY: ReadonlySet<string> = new Set([FINALIZER_EXPIRED, PROMPT_OVERRIDE]);

/** What a class of tool error says something about: the remote, staging as a whole, or the agent's program. */
export const scopeOfFault = (fault: string, { agent, repo, stage }: Place): string => {
  if (fault.startsWith("git") || OF_THE_REPOSITORY.has(fault)) return `repo:${repo}`;
  if (stage === STAGING_STAGE) return "staging";
  return `agent:${agent}`;
};

/**
 * What follows from a run's end. A tool error counts for the agent, for the repository and for staging, since what several
 * tasks have in common need not be what its class points to. Where more than one of them comes to {@link TASKS_IN_A_ROW} at
 * once, only what the class points to is to be paused: one repository's fault must not stop an agent that works for many.
 *
 * A pause explains every tool error within it, of the tasks that led to it, of what still runs and of its probes: they count
 * against nothing else.
 *
 * An end that found nothing out neither counts nor breaks a row: a stager that crashes at each run cannot be reached between
 * two of them, and would never be met three times in a row.
 * @param paused what is paused for such a fault now.
 */
export const afterEnd = (
  streaks: Streaks,
  { finding, taskId, ...place }: End,
  paused: ReadonlySet<string>,
): { streaks: Streaks; pause: string | null } => {
  const scopes = scopesOf(place);
  if (finding.kind === "nothing") return { streaks, pause: null };
  if (finding.kind === "well") {
    return { streaks: new Map([...streaks].filter(([what]) => !scopes.includes(what))), pause: null };
  }
  if (scopes.some((what) => paused.has(what))) return { streaks, pause: null };
  const { class: fault } = finding;
  const counted = new Map(streaks);
  for (const what of scopes) {
    const streak = streaks.get(what);
    const before = streak?.class === fault ? streak.tasks : [];
    counted.set(what, { class: fault, tasks: new Map([...before, [taskId, scopes]]) });
  }
  const full = scopes.filter((what) => counted.get(what)!.tasks.size >= TASKS_IN_A_ROW);
  const blamed = scopeOfFault(fault, place);
  // Where the class points to none of them, staging before a repository before an agent: that stops the least.
  const pause = full.includes(blamed) ? blamed : (full.at(-1) ?? null);
  return { streaks: pause === null ? counted : withoutWhatIsIn(pause, counted), pause };
};

const withoutWhatIsIn = (paused: string, streaks: Streaks): Streaks => {
  const left = [...streaks].map(([what, { class: met, tasks }]): [string, Streak] => [
    what,
    { class: met, tasks: new Map([...tasks].filter(([, scopes]) => !scopes.includes(paused))) },
  ]);
  return new Map(left.filter(([, { tasks }]) => tasks.size > 0));
};
