import type { Clock } from "@orchestrator/shared/clock.ts";
import type { Points } from "@orchestrator/shared/points.ts";
import type { StagingEvent } from "@orchestrator/shared/schemas/staging_run.ts";
import { Tail } from "@orchestrator/shared/tail.ts";
import { judgeOnDisks, spaceOf } from "./full_disk.ts";
import type { Plan, PlanStep } from "./plan.ts";
import { type StepReport, TAIL_BYTES } from "./staging_log.ts";
import type { StepLimit, StepRunner } from "./steps.ts";
import { judgeStep, type StepEnding, type StepVerdict } from "./verdict.ts";

/** Where it is told what the steps do. */
export interface StepSink {
  emit: (event: StagingEvent) => void;
  clock: Clock;
  /** `step.before`, `step.after`; the key is the step. */
  points: Points;
}

export type StepsOutcome =
  | { verdict: "success" | "failed"; reason: string }
  | { verdict: "tool_error"; class: string; reason: string };

type Report = StepReport & { output: Tail };

export const stepReports = (steps: readonly PlanStep[]): Report[] =>
  steps.map(({ name }) => ({
    name,
    result: "not run",
    exitCode: null,
    durationMs: null,
    reason: null,
    output: new Tail(TAIL_BYTES),
  }));

/** Runs the steps in order; the first that does not pass ends the run. What each came to stands in its report. */
export const runSteps = async (options: {
  plan: Plan;
  reports: readonly Report[];
  runner: StepRunner;
  sink: StepSink;
  /** The folders that the steps write to. */
  folders: readonly string[];
  /** Its reason is thrown. */
  signal: AbortSignal;
}): Promise<StepsOutcome> => {
  const { plan, reports, runner, sink, folders, signal } = options;
  const startedMs = sink.clock.monotonicMs();
  for (const [index, step] of plan.steps.entries()) {
    const leftMs = plan.timeoutMs - (sink.clock.monotonicMs() - startedMs);
    const limit = limitOf(step, { ms: leftMs, of: "run", statedMs: plan.timeoutMs });
    const judgement = await runStep({ step, limit, report: reports[index]!, runner, sink, folders, signal });
    if (judgement.verdict !== "passed") return { ...judgement, reason: `step ${step.name}: ${judgement.reason}` };
  }
  return {
    verdict: "success",
    reason: plan.steps.length === 1 ? "the step passed" : `all ${plan.steps.length} steps passed`,
  };
};

/**
 * Runs every step of the teardown, whatever becomes of the others. Nothing ends it but its steps' own limits, and nothing
 * that befalls it changes the verdict: it is only reported.
 */
export const runTeardown = async (options: {
  plan: Plan;
  reports: readonly Report[];
  runner: StepRunner;
  sink: StepSink;
  /** The folders that the steps write to. */
  folders: readonly string[];
}): Promise<void> => {
  const { plan, reports, runner, sink, folders } = options;
  const { signal } = new AbortController();
  for (const [index, step] of plan.teardown.entries()) {
    const ms = step.timeoutMs ?? plan.timeoutMs;
    const limit: StepLimit = { ms, of: "step", statedMs: ms };
    const report = reports[index]!;
    try {
      await runStep({ step, limit, report, runner, sink, folders, signal });
    } catch (error) {
      report.result = "tool_error";
      report.reason = `could not be run: ${error instanceof Error ? error.message : error}`;
      sink.emit({ event: "step", name: step.name, state: report.result, reason: report.reason });
    }
  }
};

/** The step's own limit, or what is left of the run's where that is less. */
const limitOf = (step: PlanStep, run: StepLimit): StepLimit =>
  step.timeoutMs !== null && step.timeoutMs <= run.ms
    ? { ms: step.timeoutMs, of: "step", statedMs: step.timeoutMs }
    : run;

const runStep = async (options: {
  step: PlanStep;
  limit: StepLimit;
  report: Report;
  runner: StepRunner;
  sink: StepSink;
  folders: readonly string[];
  signal: AbortSignal;
}): Promise<StepVerdict> => {
  const { step, limit, report, runner, sink, folders, signal } = options;
  const { name } = step;
  const { emit, clock, points } = sink;
  const startedMs = clock.monotonicMs();
  const decoder = new TextDecoder();
  emit({ event: "step", name, state: "started" });
  await points.reach("step.before", name);
  const say = (text: string): void => {
    if (text !== "") emit({ event: "output", name, text });
  };
  const ending = await runner.run({
    step,
    limit,
    signal,
    onAttempt: say,
    onOutput: (chunk) => {
      report.output.append(chunk);
      if (step.kind === "run") say(decoder.decode(chunk, { stream: true }));
    },
  });
  const judgement = await judge(step, ending, folders);
  report.result = judgement.verdict;
  report.exitCode = exitCodeOf(ending);
  report.durationMs = Math.round(clock.monotonicMs() - startedMs);
  report.reason = judgement.verdict === "passed" ? null : judgement.reason;
  emit({
    event: "step",
    name,
    state: judgement.verdict,
    exit_code: report.exitCode,
    duration_ms: report.durationMs,
    ...(report.reason === null ? {} : { reason: report.reason }),
  });
  await points.reach("step.after", name);
  return judgement;
};

const judge = async (step: PlanStep, ending: StepEnding, folders: readonly string[]): Promise<StepVerdict> => {
  if (step.kind !== "run") return judgeStep(ending);
  const judgement = judgeStep(ending, step.infraExitCodes);
  return judgement.verdict === "failed" ? judgeOnDisks(judgement, await spaceOf(folders)) : judgement;
};

const exitCodeOf = (ending: StepEnding): number | null => (ending.kind === "exited" ? ending.code : null);
