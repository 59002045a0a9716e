import { tmpdir } from "node:os";
import { agentFor } from "@orchestrator/shared/config/agent_for.ts";
import type { AgentConfig, Config } from "@orchestrator/shared/config/config.ts";
import { isStagingRunners } from "@orchestrator/shared/pipeline.ts";
import { childEnvironment } from "@orchestrator/shared/process/child_environment.ts";
import { inTempFolder } from "@orchestrator/shared/process/in_temp_folder.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";
import { findCommand } from "../scheduler/command.ts";
import { type BoundedResult, runBounded } from "../scheduler/run_bounded.ts";
import type { Check, CheckContext } from "./checks.ts";
import { type Finding, fail } from "./finding.ts";

const VERSION_GRACE_MS = 1_000;
const MAX_VERSION_CHARS = 100;

/** Whether each agent's program is there, and which version it says to be. */
export const checkAgents: Check = async (context) => {
  // Most agents are the same program: it is asked once.
  const asked = new Map<string, Promise<Judgement>>();
  return Promise.all(
    agentsOf(context.config).map(async (name) => {
      const agent = agentFor(context.config.agents, name);
      if (agent === null) return notConfigured(context.config, name);
      const key = JSON.stringify([agent.command[0], agent.env.PATH]);
      const judgement = asked.get(key) ?? askProgram(context, agent);
      asked.set(key, judgement);
      return { check: `agent ${name}`, ...(await judgement) };
    }),
  );
};

type Judgement = Omit<Finding, "check">;

const notConfigured = ({ configPath }: Config, name: string): Finding =>
  fail(`agent ${name}`, "no program is configured for it", `set agents.${name} or agents.default in ${configPath}`);

/** The agents that the pipeline's stages are worked by, without what the staging runner works. */
const agentsOf = (config: Pick<Config, "pipeline" | "stagingRunnerEnabled">): string[] => [
  ...new Set(
    config.pipeline.stages
      .filter(({ name, agent }) => !isStagingRunners({ stage: name, agent }, config))
      .map(({ agent }) => agent),
  ),
];

const askProgram = async (context: CheckContext, agent: AgentConfig): Promise<Judgement> => {
  const { clock, signal, timeoutsMs } = context;
  const env = environmentOf(context, agent);
  const [program] = agent.command;
  try {
    const file = await findCommand(program, tmpdir(), env.PATH);
    const limits = { timeoutMs: timeoutsMs.version, graceMs: VERSION_GRACE_MS, clock, signal };
    const answer = await inTempFolder(tmpdir(), (cwd) =>
      runBounded({ argv: [program, "--version"], cwd, env, tempFolder: cwd, ...limits }),
    );
    return judgeVersion(file, answer, timeoutsMs.version);
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    return { level: "fail", found: error.message, todo: null };
  }
};

/**
 * That of the agent without its keys and without anything to work on: a program that does not know `--version` and begins
 * to work has nothing to work with.
 */
const environmentOf = ({ config }: CheckContext, agent: AgentConfig): Record<string, string> =>
  childEnvironment(config.parentEnv, agent.env.PATH === undefined ? {} : { PATH: agent.env.PATH });

/** Not every program knows `--version`; what counts is that there is one which can be started. */
const judgeVersion = (file: string, { ending, output }: BoundedResult, timeoutMs: number): Judgement => {
  const [line = ""] = output.trim().split("\n");
  if (ending.kind === "timed_out") {
    const found = `${file} did not answer --version within ${timeoutMs / 1000} s`;
    return { level: "warn", found, todo: "does it wait for something? Try it by hand" };
  }
  const said = ending.kind === "exited" && ending.code === 0 && line !== "";
  const version = said ? line.slice(0, MAX_VERSION_CHARS) : "it says no version";
  return { level: "ok", found: `${file} (${version})`, todo: null };
};
