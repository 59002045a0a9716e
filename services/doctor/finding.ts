export type Level = "ok" | "warn" | "fail";

/** What one look has found: a line of the doctor's answer. */
export interface Finding {
  /** What was looked at, for example `repo shop`. */
  check: string;
  level: Level;
  found: string;
  /** What to do about it; null where nothing is to be done, or what was found says it. */
  todo: string | null;
}

export const ok = (check: string, found: string): Finding => ({ check, level: "ok", found, todo: null });

/** It works, and is likely not what was meant, or will not work for long. */
export const warn = (check: string, found: string, todo: string | null): Finding => ({
  check,
  level: "warn",
  found,
  todo,
});

/** It does not work. `todo` is null where what was found says it already. */
export const fail = (check: string, found: string, todo: string | null): Finding => ({
  check,
  level: "fail",
  found,
  todo,
});

const CHECK_WIDTH = 20;
const MAX_LINE = 1000;

/** One line for people: `fail  repo shop  what was found -> what to do`. */
export const showFinding = ({ check, level, found, todo }: Finding): string =>
  oneLine(`${level.padEnd(4)}  ${check.padEnd(CHECK_WIDTH)}  ${todo === null ? found : `${found} -> ${todo}`}`);

/** What programs and remotes say may have many lines, and control characters that a terminal would obey. */
export const oneLine = (text: string): string => {
  const line = text
    .replaceAll(/\s*\n\s*/g, " ")
    .replaceAll(/[\u0000-\u001f\u007f-\u009f]/g, "")
    .trimEnd();
  return line.length <= MAX_LINE ? line : `${line.slice(0, MAX_LINE)}…`;
};

/** The last line of an answer: how much of it was good. */
export const showSum = (findings: readonly Finding[]): string => {
  const count = (level: Level) => findings.filter((finding) => finding.level === level).length;
  return `${count("ok")} ok, ${count("warn")} warn, ${count("fail")} fail`;
};
