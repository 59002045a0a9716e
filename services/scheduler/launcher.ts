import { agentFor } from "@orchestrator/shared/config/agent_for.ts";
import type { AgentConfig } from "@orchestrator/shared/config/config.ts";
import { workItemFolder } from "@orchestrator/shared/domain.ts";
import type { Stage } from "@orchestrator/shared/pipeline.ts";
import { childEnvironment } from "@orchestrator/shared/process/child_environment.ts";
import { recordNotStarted, recordStarted, recordStarting } from "@orchestrator/shared/storage/record_run_progress.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";
import type { ActiveRun } from "./active_runs.ts";
import { agentEnvironment } from "./agent_environment.ts";
import { type AgentProcess, startAgent } from "./agent_process.ts";
import { exitNotePath, makeExitNote } from "./exit_notes.ts";
import { listFiles } from "./git/list_files.ts";
import { prepareWorkspace } from "./git/workspace.ts";
import { forgetNote } from "./noted_exits.ts";
import { readPromptOverride } from "./prompt_override.ts";
import { buildPrompt } from "./prompts.ts";
import { fenceOf, holdOf, type RunContext } from "./run_context.ts";
import type { RunLog } from "./run_log.ts";
import { findPlace, type RunPlace } from "./run_place.ts";
import { failedAttempt, type RunResult } from "./run_result.ts";
import { salvage } from "./run_work.ts";
import { tempFolderOf } from "./temp_folder.ts";
import { writeSurely } from "./write_surely.ts";

export type Launched =
  | { kind: "agent"; place: RunPlace; workspace: string; agent: AgentProcess }
  /** An earlier run of this job has finished the work: the finalizer takes it from there. */
  | { kind: "collected"; place: RunPlace; commit: string }
  | { kind: "refused"; result: RunResult };

/**
 * Brings a claimed job to the point where its agent runs: repository fetched, workspace prepared, process started.
 * @throws {ToolError} where the surroundings fail, and the reason of the run's signal once it is aborted.
 */
export const launch = async (context: RunContext, run: ActiveRun, stage: Stage, log: RunLog): Promise<Launched> => {
  const { points } = context;
  const { job, task } = run.claim;
  const agent = programFor(context, job.agent);
  const found = await findPlace(context, run, stage);
  if (found.kind === "refused") return found;
  const { place } = found;
  const salvaged = await salvage(context, run, place);
  if (salvaged.kind === "collected") return { kind: "collected", place, commit: salvaged.commit };
  if (salvaged.kind === "refused") return { kind: "refused", result: failedAttempt(salvaged.reason) };

  await points.reach("launch.salvaged", job.id);
  const workspace = await prepare(context, run, place, salvaged.refs);
  await points.reach("launch.workspace_ready", job.id);
  const { config, git } = context;
  const override = await readPromptOverride(git, place.mirror, task.baseBranch, job.agent, run.signal);
  const { artifact: artifactPath } = place;
  const prompt = buildPrompt({
    task,
    job,
    stage,
    pipeline: config.pipeline,
    artifactPath,
    override,
    papers: await listFiles(git, place.mirror, place.start, workItemFolder(task.workItemId), run.signal),
    leftRefs: salvaged.refs,
    earlierOutcome: salvaged.outcome,
    model: agent.model,
  });
  run.signal.throwIfAborted();
  await recordStart(context, run);
  await points.reach("spawn.before", job.id);
  try {
    await fenceOf(context)();
    const exitNote = exitNotePath(config.dataDir, run.claim.run.id);
    await makeExitNote(exitNote);
    const process = await startAgent({
      argv: agent.command,
      prompt,
      cwd: workspace,
      tempFolder: tempFolderOf(config.dataDir),
      exitNote,
      env: childEnvironment(config.parentEnv, {
        ...agent.env,
        ...agentEnvironment({ instanceId: context.instanceId, ...run.claim, artifactPath }),
      }),
      log,
      clock: context.clock,
      onTrouble: (error, what) => context.log.error({ err: error, ...holdOf(run) }, what),
      signal: run.signal,
    });
    return { kind: "agent", place, workspace, agent: process };
  } catch (error) {
    await takeBackStart(context, run);
    throw error;
  }
};

/** Says that the agent may run from now on: a start that is not recorded must not pass for one that never was. */
const recordStart = async ({ storage, log }: RunContext, run: ActiveRun): Promise<void> => {
  const write = () => storage.write((tx) => recordStarting(tx, holdOf(run)));
  await writeSurely(write, {
    what: "starting",
    log,
    signal: run.signal,
    onWait: (waiting) => run.waits(waiting),
  });
};

/** A start that failed is none: what an earlier run left stays what the next attempt is told of. */
const takeBackStart = async (context: RunContext, run: ActiveRun): Promise<void> => {
  const { storage, log } = context;
  await forgetNote(context, run.claim.run.id);
  try {
    await storage.write((tx) => recordNotStarted(tx, holdOf(run)));
  } catch (error) {
    log.error({ err: error, ...holdOf(run) }, "an agent was not started, and that could not be recorded");
  }
};

/** Records the start of an agent. It runs already: whoever calls this ends it where the record cannot be made. */
export const recordAgentStart = async (context: RunContext, run: ActiveRun, agent: AgentProcess): Promise<void> => {
  const { storage, log, points } = context;
  const { job } = run.claim;
  await points.reach("spawn.after", job.id);
  const { pid, started } = agent;
  const detail = { stage: job.stage, agent: job.agent, pid };
  const write = () => storage.write((tx) => recordStarted(tx, holdOf(run), { pid, started }, detail));
  await writeSurely(write, { what: "started", log, signal: run.signal });
  await points.reach("spawn.recorded", job.id);
};

const programFor = ({ config }: RunContext, agent: string): AgentConfig => {
  const program = agentFor(config.agents, agent);
  if (program) return program;
  throw new ToolError(
    "no_agent",
    `no program for the agent '${agent}': add agents.${agent} or agents.default to ${config.configPath}`,
  );
};

const prepare = async (
  context: RunContext,
  run: ActiveRun,
  place: RunPlace,
  refs: readonly string[],
): Promise<string> => {
  const { config, git, log, points } = context;
  const { task } = run.claim;
  // What stands in the workspace is thrown away: it must not be another scheduler's agent's.
  await fenceOf(context)();
  const { path, notes } = await prepareWorkspace({
    git,
    mirror: place.mirror,
    workspacesDir: config.workspacesDir,
    workItemId: task.workItemId,
    branch: task.branch,
    baseBranch: task.baseBranch,
    start: place.start,
    staleArtifact: place.artifact,
    refs,
    points,
    signal: run.signal,
  });
  if (notes.length > 0) log.warn({ ...holdOf(run), notes }, "the workspace is not as a run may expect it");
  return path;
};
