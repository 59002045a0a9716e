import { isoTime } from "./clock.ts";

/**
 * Putting a staging run off after a `tool_error`. How often that has happened is counted in the job's `task_content`: one
 * line with the marker for each time. The count needs no column and survives a restart, and it bounds the loop.
 */
export const DEFER_MARKER = "[staging-infra-defer]";

/** What the marker becomes in text that people wrote: still legible, no longer counted. */
const NEUTRALISED = "(staging-infra-defer)";

/** However often a run was put off, the next one is due within this. */
export const LONGEST_DEFER_MS = 10 * 60_000;

/** A marker's line is kept for the life of the job, so a reason is cut to what a person reads. */
const MAX_REASON_CHARACTERS = 500;

const MARKER_TIME = /\[staging-infra-defer\] (\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?Z)/g;

/** How often the run has been put off. */
export const countMarkers = (taskContent: string): number => taskContent.split(DEFER_MARKER).length - 1;

/** When the run was first put off, in ms since the epoch; null where no marker names a time. */
export const firstMarkerAt = (taskContent: string): number | null => {
  const times = Array.from(taskContent.matchAll(MARKER_TIME), (match) => Date.parse(match[1]!)).filter(
    (time) => !Number.isNaN(time),
  );
  return times.length === 0 ? null : Math.min(...times);
};

/** Takes the meaning from markers in text that comes from outside, so that a plain count is right. */
export const neutralise = (userText: string): string => userText.replaceAll(DEFER_MARKER, NEUTRALISED);

/**
 * The `task_content` of the next job: the old one plus one line.
 * @param atIso the time of the deferral, ISO 8601 UTC.
 * @param reason any text; it is brought onto one line, cleaned of control characters and cut.
 */
export const appendMarker = (taskContent: string, atIso: string, reason: string): string => {
  const newline = taskContent === "" || taskContent.endsWith("\n") ? "" : "\n";
  return `${taskContent}${newline}${DEFER_MARKER} ${atIso} ${oneLine(neutralise(reason))}`;
};

export interface DeferView {
  taskContent: string;
  /** Milliseconds since the epoch. */
  now: number;
  /** `ORCH_STAGING_DEFER_DELAY_MS`. */
  delayMs: number;
  /** `ORCH_STAGING_MAX_DEFERS`. */
  maxDefers: number;
  /** `ORCH_STAGING_DEFER_MAX_MS`. */
  maxMs: number;
}

export type DeferDecision =
  /** `n`: markers before this one. `availableAtMs`: when the next job is due, in ms since the epoch. */
  | { kind: "defer"; availableAtMs: number; n: number }
  /** `reason`: why it is not put off again; what went wrong last is the caller's to add. */
  | { kind: "block"; reason: string };

/** Whether a staging run that ended in a `tool_error` is put off again, and until when. */
export const decideDefer = ({ taskContent, now, delayMs, maxDefers, maxMs }: DeferView): DeferDecision => {
  const n = countMarkers(taskContent);
  if (n >= maxDefers) {
    return { kind: "block", reason: `put off ${n} times, which is all that ORCH_STAGING_MAX_DEFERS allows` };
  }
  const first = firstMarkerAt(taskContent);
  if (first !== null && now - first > maxMs) {
    return {
      kind: "block",
      reason: `put off since ${isoTime(first)}, longer than ORCH_STAGING_DEFER_MAX_MS (${maxMs} ms) allows`,
    };
  }
  return { kind: "defer", availableAtMs: now + Math.min(delayMs * 2 ** n, LONGEST_DEFER_MS), n };
};

const oneLine = (text: string): string => {
  const line = text
    .toWellFormed()
    .replace(/[\s\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, " ")
    .trim();
  const characters = Array.from(line);
  return characters.length <= MAX_REASON_CHARACTERS
    ? line
    : `${characters.slice(0, MAX_REASON_CHARACTERS - 1).join("")}…`;
};
