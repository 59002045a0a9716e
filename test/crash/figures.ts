/** What a run of the harness has come to. */
export interface CrashReport {
  runtime: string;
  seed: number;
  kills: number;
  /** Rounds in which a service that was told to stop had stopped before it could be killed. */
  stops: number;
  /** By `<service> <point>`, `<service> at a moment`, `<service> while stopping`. */
  killsPerPoint: Record<string, number>;
  /** Starts after a kill that became ready, with all that had to hold then. */
  recoveries: number;
  items: number;
  runs: number;
  advances: number;
  /** Milliseconds from the start of the process; `runtime` is what the runtime takes for an empty file. */
  readyMs: Percentiles;
  firstClaimMs: Percentiles;
  runtimeMs: Percentiles;
  advancedTwice: number;
  lost: number;
  leftRunning: number;
  paidTwice: number;
  otherViolations: number;
  helped: Record<string, number>;
  /** What the services logged as errors, by message. */
  errors: Record<string, number>;
  violations: string[];
  seconds: number;
}

export interface Percentiles {
  n: number;
  p50: number | null;
  p99: number | null;
  max: number | null;
}

/** Nearest rank, rounded to whole numbers. */
export const percentiles = (values: readonly number[]): Percentiles => {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share: number): number | null => {
    const value = sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)];
    return value === undefined ? null : Math.round(value);
  };
  return { n: sorted.length, p50: at(0.5), p99: at(0.99), max: at(1) };
};

const KINDS = {
  advancedTwice: /^advanced twice:/,
  lost: /^lost:/,
  leftRunning: /^left running:/,
  paidTwice: /^paid twice:/,
} as const;

/** How many violations of each kind there are. */
export const countViolations = (
  violations: readonly string[],
): Record<keyof typeof KINDS | "otherViolations", number> => {
  const count = (pattern: RegExp): number => violations.filter((text) => pattern.test(text)).length;
  const isOther = (text: string): boolean => !Object.values(KINDS).some((pattern) => pattern.test(text));
  return {
    advancedTwice: count(KINDS.advancedTwice),
    lost: count(KINDS.lost),
    leftRunning: count(KINDS.leftRunning),
    paidTwice: count(KINDS.paidTwice),
    otherViolations: violations.filter(isOther).length,
  };
};

/** The report as people read it. */
export const tellReport = (report: CrashReport): string => {
  const shown = ({ n, p50, p99, max }: Percentiles): string => `p50 ${p50} ms, p99 ${p99} ms, max ${max} ms (${n})`;
  const counted = (counts: Record<string, number>): string[] =>
    Object.entries(counts)
      .sort()
      .map(([name, n]) => `  ${String(n).padStart(5)}  ${name}`);
  return [
    `${report.kills} kills (and ${report.stops} stops in time) on ${report.runtime}, seed ${report.seed}, in ${report.seconds} s`,
    ...counted(report.killsPerPoint),
    `recoveries                    ${report.recoveries}`,
    `work items, runs, advances    ${report.items}, ${report.runs}, ${report.advances}`,
    `start to ready                ${shown(report.readyMs)}`,
    `start to first new claim      ${shown(report.firstClaimMs)}`,
    `of which the bare runtime     ${shown(report.runtimeMs)}`,
    `stages advanced twice         ${report.advancedTwice}`,
    `items lost                    ${report.lost}`,
    `processes left                ${report.leftRunning}`,
    `agents run again after exit 0 ${report.paidTwice}`,
    `other violations              ${report.otherViolations}`,
    "helped by a person:",
    ...counted(report.helped),
    "errors that the services logged:",
    ...counted(report.errors),
    ...report.violations.map((text) => `VIOLATION ${text}`),
  ].join("\n");
};
