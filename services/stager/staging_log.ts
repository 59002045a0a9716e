import { STAGING_RUNNER_AUTHOR } from "@orchestrator/shared/artifact.ts";
import { STAGING_STAGE } from "@orchestrator/shared/domain.ts";
import { writeFrontmatter } from "@orchestrator/shared/frontmatter.ts";
import type { Tail } from "@orchestrator/shared/tail.ts";
import { printable, readableTail } from "./readable_tail.ts";

/** One row of the artifact's table and the output that belongs to it. */
export interface StepReport {
  name: string;
  result: "passed" | "failed" | "tool_error" | "not run";
  exitCode: number | null;
  durationMs: number | null;
  /** Why it did not pass. */
  reason: string | null;
  output: Tail | null;
}

export interface StagingReport {
  workItemId: string;
  runId: number;
  commit: string;
  branch: string;
  verdict: "success" | "failed";
  /** One sentence. */
  reason: string;
  /** Milliseconds since the epoch. */
  now: number;
  /** What a reader should know beside the verdict, for example that the branch brings its own plan. */
  notes: readonly string[];
  /** What is wrong with the plan; empty where it was run. */
  planFaults: readonly string[];
  steps: readonly StepReport[];
  teardown: readonly StepReport[];
}

/** How much of one step's output is kept in memory, in bytes. */
export const TAIL_BYTES = 16 * 1024;

/** For all outputs together. Each may need a fence of its own length before and after it: 3 × 256 KiB stay below 1 MiB. */
const ALL_OUTPUT_BYTES = 256 * 1024;

/** `15-staging-log.md`, whole: whatever the steps printed, its frontmatter stays readable and its size below 1 MiB. */
export const writeStagingLog = (report: StagingReport): string => {
  const frontmatter = {
    work_item: report.workItemId,
    stage: STAGING_STAGE,
    author_agent: STAGING_RUNNER_AUTHOR,
    status: "completed",
    created_at: new Date(report.now).toISOString().slice(0, 10),
    model_used: "n/a",
    staging_status: report.verdict === "success" ? "SUCCESS" : "FAILED",
    run_id: String(report.runId),
    commit: report.commit,
  };
  const reports = [...report.steps, ...report.teardown];
  const perStep = Math.min(TAIL_BYTES, Math.floor(ALL_OUTPUT_BYTES / Math.max(1, reports.length)));
  const body = [
    `# Staging log: ${report.workItemId}`,
    `- commit: \`${report.commit}\`\n- branch: ${code(report.branch)}\n- verdict: ${frontmatter.staging_status}, ${inline(report.reason)}`,
    ...report.notes.map((note) => `> ${inline(note)}`),
    ...(report.planFaults.length === 0 ? [] : ["## Faults of the plan", fenced(report.planFaults.join("\n"))]),
    ...section("Steps", report.steps, perStep),
    ...section("Teardown", report.teardown, perStep),
  ];
  return writeFrontmatter(frontmatter, `${body.join("\n\n")}\n`);
};

const section = (title: string, steps: readonly StepReport[], outputBytes: number): string[] =>
  steps.length === 0 ? [] : [`## ${title}`, table(steps), ...steps.flatMap((step) => details(step, outputBytes))];

const table = (steps: readonly StepReport[]): string =>
  [
    "| step | result | exit code | seconds |",
    "| --- | --- | --- | --- |",
    ...steps.map(({ name, result, exitCode, durationMs }) => {
      const seconds = durationMs === null ? "" : (durationMs / 1000).toFixed(1);
      return `| ${inline(name)} | ${result} | ${exitCode ?? ""} | ${seconds} |`;
    }),
  ].join("\n");

const details = ({ name, reason, output }: StepReport, outputBytes: number): string[] => {
  const { text, dropped } = output === null ? { text: "", dropped: false } : readableTail(output, outputBytes);
  if (text === "" && reason === null) return [];
  return [
    `### ${inline(name)}`,
    ...(reason === null ? [] : [inline(reason)]),
    ...(text === "" ? [] : [dropped ? "The end of its output:" : "Its output:", fenced(text)]),
  ];
};

/** A fenced block that nothing in `text` can close. */
const fenced = (text: string): string => {
  const content = printable(text);
  const fence = "`".repeat(Math.max(3, longestRun(content) + 1));
  return `${fence}text\n${content}\n${fence}`;
};

const code = (text: string): string => {
  const content = printable(text).replace(/\s+/g, " ");
  const fence = "`".repeat(longestRun(content) + 1);
  return /^`|`$/.test(content) ? `${fence} ${content} ${fence}` : `${fence}${content}${fence}`;
};

const longestRun = (text: string): number =>
  (text.match(/`+/g) ?? []).reduce((longest, run) => Math.max(longest, run.length), 0);

/** One line of running text that Markdown takes literally, also in a table's cell. */
const inline = (text: string): string =>
  printable(text)
    .replace(/\s+/g, " ")
    .trim()
    .slice(0, 2000)
    .toWellFormed()
    .replace(/[\\`*_[\]<>|#~]/g, "\\$&");
