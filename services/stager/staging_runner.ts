import { join, resolve } from "node:path";
import { type Clock, isoTime } from "@orchestrator/shared/clock.ts";
import type { Config } from "@orchestrator/shared/config/config.ts";
import { decideDefer } from "@orchestrator/shared/defer.ts";
import { isDiskFull } from "@orchestrator/shared/disk_space.ts";
import { STAGING_STAGE } from "@orchestrator/shared/domain.ts";
import type { Git } from "@orchestrator/shared/git/run_git.ts";
import type { Log } from "@orchestrator/shared/log.ts";
import { artifactPath, findStage } from "@orchestrator/shared/pipeline.ts";
import type { Points } from "@orchestrator/shared/points.ts";
import { childEnvironment } from "@orchestrator/shared/process/child_environment.ts";
import { removeTree } from "@orchestrator/shared/remove_tree.ts";
import type { StagingEvent, StagingResult, StagingRunRequest } from "@orchestrator/shared/schemas/staging_run.ts";
import type { StagingJob } from "@orchestrator/shared/storage/read_staging_job.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";
import { checkOut, type Mirror, requireCommit } from "./checkout.ts";
import type { RunCounters } from "./counters.ts";
import { describeFullDisk, spaceOf } from "./full_disk.ts";
import { type LoadedPlan, loadPlan } from "./load_plan.ts";
import { PLAN_PATH, type Plan } from "./plan.ts";
import type { Scratch } from "./scratch.ts";
import { type StepReport, writeStagingLog } from "./staging_log.ts";
import { StepRunner } from "./steps.ts";
import { chooseAction } from "./verdict.ts";
import { runSteps, runTeardown, type StepSink, type StepsOutcome, stepReports } from "./work_plan.ts";

export interface StagingRunnerDeps {
  config: Pick<
    Config,
    | "reposDir"
    | "repos"
    | "pipeline"
    | "parentEnv"
    | "killGraceMs"
    | "stagingDeferDelayMs"
    | "stagingMaxDefers"
    | "stagingDeferMaxMs"
  >;
  points: Points;
  clock: Clock;
  log: Log;
  scratch: Scratch;
  counters: RunCounters;
  /** Git with the instance's mark. */
  git: (instanceId: string) => Git;
}

export interface StagingRunCall {
  request: StagingRunRequest;
  /** As it was read when the run was asked for. */
  job: StagingJob;
  instanceId: string;
  /** Must not throw. */
  emit: (event: StagingEvent) => void;
  /** Ends the run: its processes are ended, the teardown runs, and the result is a `tool_error` of the reason's class. */
  signal: AbortSignal;
}

/** What a run came to, before the scheduler is told what to do. */
type Outcome =
  | { verdict: "success" | "failed"; reason: string; artifact: string }
  | { verdict: "tool_error"; class: string; reason: string };

/**
 * Works one staging job from its commit to the verdict. Never throws: what goes wrong around the work is a `tool_error`.
 * When it resolves, no process of the run is left and its folder is gone.
 */
export const runStaging = async (deps: StagingRunnerDeps, call: StagingRunCall): Promise<StagingResult> => {
  const { counters, log, config, clock } = deps;
  const { request, job } = call;
  counters.started();
  let outcome: Outcome;
  try {
    outcome = await inScratch(deps, call);
  } catch (error) {
    outcome = { verdict: "tool_error", ...describeError(error) };
    log.warn({ err: error, ...request }, "staging run ended in a tool error");
  }
  const decision = decideDefer({
    taskContent: job.taskContent,
    now: clock.now(),
    delayMs: config.stagingDeferDelayMs,
    maxDefers: config.stagingMaxDefers,
    maxMs: config.stagingDeferMaxMs,
  });
  const action = chooseAction(outcome.verdict, () => decision);
  counters.ended(outcome.verdict, action);
  const blocked = action === "block" && decision.kind === "block" ? `; ${decision.reason}` : "";
  return {
    event: "result",
    verdict: outcome.verdict,
    class: outcome.verdict === "tool_error" ? outcome.class : null,
    action,
    reason: `${outcome.reason}${blocked}`,
    commit: job.head ?? "",
    artifact:
      outcome.verdict === "tool_error" ? null : { path: stagingLogPath(config, job), content: outcome.artifact },
  };
};

const stagingLogPath = ({ pipeline }: Pick<Config, "pipeline">, { workItemId }: StagingJob): string => {
  const stage = findStage(pipeline, STAGING_STAGE);
  return artifactPath(stage ?? { artifact: "15-staging-log.md" }, workItemId);
};

/** What of the operating system's errors is the disk's fault. */
const classOf = (code: unknown): string => {
  if (isDiskFull(code)) return "no_space";
  return code === "EIO" || code === "EROFS" ? "disk" : "exception";
};

const describeError = (error: unknown): { class: string; reason: string } => {
  if (error instanceof ToolError) return { class: error.code, reason: error.message };
  const { code, message } = error as { code?: unknown; message?: unknown };
  return {
    class: classOf(code),
    reason: `the staging runner itself failed: ${message ?? error}`,
  };
};

const inScratch = async (deps: StagingRunnerDeps, call: StagingRunCall): Promise<Outcome> => {
  const { config, scratch, clock, log, points } = deps;
  const { request, job, instanceId, emit, signal } = call;
  const repo = Object.hasOwn(config.repos, job.repo) ? config.repos[job.repo] : undefined;
  if (repo === undefined) {
    throw new ToolError(
      "unknown_repo",
      `the repository ${job.repo} is not in the stager's configuration: add it under repos`,
    );
  }
  const mirror: Mirror = {
    git: deps.git(instanceId),
    gitDir: join(config.reposDir, `${job.repo}.git`),
    isPushed: repo.push,
  };
  const commit = await requireCommit(mirror, job.head, signal);
  const { job_id, run_id } = request;
  emit({ event: "started", job_id, run_id, commit, branch: job.branch, at: isoTime(clock.now()) });

  const folder = await scratch.makeRunFolder({ instanceId, runId: run_id });
  try {
    const loaded = await loadPlan({ mirror, commit, baseBranch: job.baseBranch, from: repo.plan, signal });
    if (loaded.reading.kind === "invalid") {
      const reason = planFault(loaded.reading.faults);
      return judged(deps, call, { commit, loaded, verdict: "failed", reason, steps: [], teardown: [] });
    }
    const { plan } = loaded.reading;
    const cwd = join(folder, "work");
    const cacheDir = await scratch.cacheFolder(job.repo);
    const env = stepEnvironment(deps, call, { plan, commit, cacheDir });
    // An empty TMPDIR means none to the programs that read it.
    const folders = [folder, cacheDir, resolve(cwd, env.TMPDIR || "/tmp")];
    await points.reach("checkout.before", run_id);
    const full = describeFullDisk(await spaceOf(folders));
    if (full !== null) throw new ToolError("no_space", full);
    await checkOut({ mirror, commit, folder: cwd, signal });
    await points.reach("checkout.after", run_id);
    const runner = new StepRunner({
      cwd,
      env,
      tempFolder: folder,
      placeholders: { commit, branch: job.branch, work_item_id: job.workItemId },
      marks: { instanceId, runId: run_id, folder },
      killGraceMs: config.killGraceMs,
      clock,
    });
    return await workPlan(deps, call, { commit, loaded: { ...loaded, plan }, runner, folders });
  } finally {
    await removeTree(folder).catch((error: unknown) => {
      // Files of another user (written in a container, say). The next start of a stager tries again; the verdict stands.
      log.warn({ err: error, folder, ...request }, "the run's folder could not be removed");
    });
  }
};

const planFault = (faults: readonly string[]): string => {
  const more = faults.length === 1 ? "" : ` (and ${faults.length - 1} faults more)`;
  return `${PLAN_PATH}: ${faults[0]}${more}`;
};

const stepEnvironment = (
  { config }: StagingRunnerDeps,
  { request, job, instanceId }: StagingRunCall,
  { plan, commit, cacheDir }: { plan: Plan; commit: string; cacheDir: string },
): Record<string, string> =>
  childEnvironment(config.parentEnv, {
    ...plan.env,
    ORCH_INSTANCE_ID: instanceId,
    ORCH_RUN_ID: String(request.run_id),
    ORCH_COMMIT: commit,
    ORCH_BRANCH: job.branch,
    ORCH_WORK_ITEM_ID: job.workItemId,
    ORCH_CACHE_DIR: cacheDir,
  });

interface PreparedWork {
  commit: string;
  loaded: LoadedPlan & { plan: Plan };
  runner: StepRunner;
  /** Those that the steps write to. */
  folders: readonly string[];
}

/** Steps, then the teardown whatever became of them, then the end of all that they left. */
const workPlan = async (
  deps: StagingRunnerDeps,
  call: StagingRunCall,
  { commit, loaded, runner, folders }: PreparedWork,
): Promise<Outcome> => {
  const { clock, log, points } = deps;
  const { plan } = loaded;
  const runId = call.request.run_id;
  const steps = stepReports(plan.steps);
  const teardown = stepReports(plan.teardown);
  const sink: StepSink = { emit: call.emit, clock, points };
  let outcome: StepsOutcome;
  try {
    outcome = await runSteps({ plan, reports: steps, runner, sink, folders, signal: call.signal });
  } finally {
    await points.reach("teardown.before", runId);
    try {
      await runTeardown({ plan, reports: teardown, runner, sink, folders });
    } finally {
      const { survivors } = await runner.endAll();
      if (survivors.length > 0) log.error({ survivors, ...call.request }, "processes of the run could not be ended");
    }
    await points.reach("teardown.after", runId);
  }
  // A run that was given up while its teardown ran has no verdict either.
  call.signal.throwIfAborted();
  return outcome.verdict === "tool_error"
    ? outcome
    : judged(deps, call, { commit, loaded, ...outcome, steps, teardown });
};

interface Judgement {
  commit: string;
  loaded: LoadedPlan;
  verdict: "success" | "failed";
  reason: string;
  steps: readonly StepReport[];
  teardown: readonly StepReport[];
}

const judged = (
  { clock }: StagingRunnerDeps,
  { request, job }: StagingRunCall,
  { loaded: { reading, notes }, ...judgement }: Judgement,
): Outcome => {
  const { verdict, reason } = judgement;
  const artifact = writeStagingLog({
    ...judgement,
    workItemId: job.workItemId,
    runId: request.run_id,
    branch: job.branch,
    notes,
    planFaults: reading.kind === "invalid" ? reading.faults : [],
    now: clock.now(),
  });
  return { verdict, reason: [reason, ...notes].join("; "), artifact };
};
