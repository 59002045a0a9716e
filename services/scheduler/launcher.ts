import { join } from "node:path";
import { agentFor } from "@orchestrator/shared/config/agent_for.ts";
import { artifactPath, type Stage } from "@orchestrator/shared/pipeline.ts";
import { childEnvironment } from "@orchestrator/shared/process/child_environment.ts";
import { findCollectedRun } from "@orchestrator/shared/storage/find_collected_run.ts";
import { recordStarted } from "@orchestrator/shared/storage/record_run_progress.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";
import type { ActiveRun } from "./active_runs.ts";
import { agentEnvironment } from "./agent_environment.ts";
import { type AgentProcess, startAgent } from "./agent_process.ts";
import type { Mirror } from "./git/mirror.ts";
import { startCommit } from "./git/start_commit.ts";
import { prepareWorkspace } from "./git/workspace.ts";
import { readPromptOverride } from "./prompt_override.ts";
import { buildPrompt } from "./prompts.ts";
import { holdOf, ownRunOf, type RunContext } from "./run_context.ts";
import type { RunLog } from "./run_log.ts";
import type { RunResult } from "./run_result.ts";
import { writeSurely } from "./write_surely.ts";

/** Where a run's work stands, for those who finalize it. */
export interface RunPlace {
  mirror: Mirror;
  stage: Stage;
  /** The commit that the run started from, and that its work must descend from. */
  start: string;
  /** Path of the stage's artifact in the repository. */
  artifact: string;
}

export type Launched =
  | { kind: "agent"; place: RunPlace; workspace: string; agent: AgentProcess }
  /** An earlier run of this job has exited 0 and its work is kept: nobody pays twice, so the finalizer takes it from there. */
  | { kind: "collected"; place: RunPlace; commit: string; runId: number }
  | { kind: "refused"; result: RunResult };

/**
 * Brings a claimed job to the point where its agent runs: mirror fetched, workspace prepared, process started and recorded.
 * @throws {ToolError} where the surroundings fail, and the reason of the run's signal once it is aborted.
 */
export const launch = async (context: RunContext, run: ActiveRun, stage: Stage, log: RunLog): Promise<Launched> => {
  const { config, git, mirrors, points } = context;
  const { job, task } = run.claim;
  const agent = agentFor(config.agents, job.agent);
  if (agent === null) {
    throw new ToolError(
      "no_agent",
      `no program for the agent '${job.agent}': add agents.${job.agent} or agents.default to ${config.configPath}`,
    );
  }
  const mirror = mirrors.get(task.repo);
  const begin = await findStart(context, run, mirror);
  if (begin.kind === "refused") return begin;
  const place: RunPlace = { mirror, stage, start: begin.commit, artifact: artifactPath(stage, task.workItemId) };

  const collected = await findCollected(context, run, mirror);
  if (collected !== null) return { kind: "collected", place, ...collected };

  const { path: workspace } = await prepareWorkspace({
    git,
    mirror,
    workspacesDir: config.workspacesDir,
    workItemId: task.workItemId,
    branch: task.branch,
    baseBranch: task.baseBranch,
    start: place.start,
    staleArtifact: place.artifact,
    signal: run.signal,
  });
  await points.reach("launch.workspace_ready", job.id);
  const override = await readPromptOverride(git, mirror, task.baseBranch, job.agent, run.signal);
  const prompt = buildPrompt({
    task,
    job,
    stage,
    pipeline: config.pipeline,
    artifactPath: place.artifact,
    override,
    wipRef: await findWip(context, run, mirror),
  });
  run.signal.throwIfAborted();
  await points.reach("spawn.before", job.id);
  const process = await startAgent({
    argv: agent.command,
    prompt,
    cwd: workspace,
    env: childEnvironment(config.parentEnv, {
      ...agent.env,
      ...agentEnvironment({ instanceId: context.instanceId, ...run.claim, artifactPath: place.artifact }),
    }),
    log,
    clock: context.clock,
    onOutput: () => run.sawOutput(),
  });
  return { kind: "agent", place, workspace, agent: process };
};

/** Records the start of an agent. It runs already: whoever calls this ends it where the record cannot be made. */
export const recordAgentStart = async (context: RunContext, run: ActiveRun, agent: AgentProcess): Promise<void> => {
  const { storage, log, points } = context;
  await points.reach("spawn.after", run.claim.job.id);
  const detail = { stage: run.claim.job.stage, agent: run.claim.job.agent, pid: agent.pid };
  const write = () =>
    storage.write((tx) => recordStarted(tx, holdOf(run), { pid: agent.pid, started: agent.started }, detail));
  await writeSurely(write, { what: "started", log, signal: run.signal });
};

/** Where run logs are kept. The name holds nothing that came from outside. */
export const logPathOf = (dataDir: string, runId: number): string => join(dataDir, "logs", `${runId}.log`);

/** Fetches the repository and finds the commit that the run starts from. */
export const findStart = async (
  context: Pick<RunContext, "storage">,
  run: ActiveRun,
  mirror: Mirror,
): Promise<{ kind: "start"; commit: string } | { kind: "refused"; result: RunResult }> => {
  const { task } = run.claim;
  await mirror.fetch({ signal: run.signal });
  const begin = await startCommit({
    mirror,
    branch: task.branch,
    baseBranch: task.baseBranch,
    head: task.head,
    ownRun: ownRunOf(context.storage, task.id),
    signal: run.signal,
  });
  if (begin.kind !== "foreign") return { kind: "start", commit: begin.commit };
  return { kind: "refused", result: movedByOthers(task.branch, begin) };
};

/** The result of a run whose branch somebody else has moved. */
export const movedByOthers = (branch: string, { sha, author }: { sha: string; author: string }): RunResult => ({
  kind: "needs_person",
  class: "foreign_commit",
  reason:
    `the branch ${branch} on the remote stands at ${sha.slice(0, 12)} by ${author}, which is no commit of this task. ` +
    "Take that commit off the branch (or merge it into the base branch), then retry",
});

/** The work of an earlier run of this job that had exited 0 and was cut short after that. */
const findCollected = async (
  { storage }: RunContext,
  run: ActiveRun,
  mirror: Mirror,
): Promise<{ commit: string; runId: number } | null> => {
  const runId = await findCollectedRun(storage, run.claim.job.id);
  if (runId === null) return null;
  const commit = await mirror.resolve(`refs/orchestrator/runs/${runId}`);
  return commit === null ? null : { commit, runId };
};

/** The ref under which the task's last run without success left its work, if it left any. */
const findWip = async ({ storage }: RunContext, run: ActiveRun, mirror: Mirror): Promise<string | null> => {
  const [last] = await storage.query<{ id: number }>(
    "SELECT id FROM agent_runs WHERE task_id = ? AND id < ? ORDER BY id DESC LIMIT 1",
    [run.claim.task.id, run.claim.run.id],
  );
  if (!last) return null;
  const ref = `refs/orchestrator/wip/${last.id}`;
  return (await mirror.resolve(ref)) === null ? null : ref;
};
