import type { EventRow, RunRow } from "./task_view.ts";

export interface Display {
  /** A line with the time since the start before it. */
  line(text: string): void;
  /** A heading and a text of several lines, as it is. */
  section(heading: string, text: string): void;
}

export const makeDisplay = (write: (text: string) => void, monotonicMs: () => number): Display => {
  const startedMs = monotonicMs();
  return {
    line: (text) => write(`${seconds(monotonicMs() - startedMs).padStart(8)}  ${text}\n`),
    section: (heading, text) => write(`\n── ${heading} ──\n${text.trimEnd()}\n`),
  };
};

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;

const reasonOf = ({ detail }: EventRow): string =>
  typeof detail["reason"] === "string" ? `: ${detail["reason"].split("\n")[0]}` : "";

/** What becomes of a run at an event, or null where the event says nothing of it. */
const outcomeOf = (event: EventRow): string | null => {
  switch (event.kind) {
    case "advanced":
      return `→ ${event.detail["to"]}`;
    case "returned":
      return `sent back → ${event.detail["to"]}${reasonOf(event)}`;
    case "retried":
    case "deferred":
    case "requeued":
    case "blocked":
    case "waiting":
    case "cancelled":
    case "superseded":
      return `${event.kind}${reasonOf(event)}`;
    default:
      return null;
  }
};

/** The line for an event that ends a run: its stage, who worked it, for how long, and what came of it; null for the others. */
export const stageLine = (event: EventRow, run: RunRow | undefined): string | null => {
  const outcome = outcomeOf(event);
  if (outcome === null) return null;
  if (!run) return outcome;
  const took = seconds(Date.parse(event.at) - Date.parse(run.started_at));
  return `${run.stage.padEnd(15)} ${run.agent.padEnd(10)} ${took.padStart(6)}  ${outcome}`;
};
