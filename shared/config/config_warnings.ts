import { isStagingRunners } from "../pipeline.ts";
import { agentFor } from "./agent_for.ts";
import type { Config } from "./config.ts";
import { holdsPassword } from "./git_url.ts";

/** What works as configured and is likely not what was meant; one line each. */
export const configWarnings = (config: Config): string[] => [
  ...withoutRepos(config),
  ...withoutProgram(config),
  ...unusedAgents(config),
  ...passwords(config),
  ...switchedOff(config),
  ...withoutEffect(config),
];

const withoutRepos = ({ repos, configPath }: Config): string[] =>
  Object.keys(repos).length === 0 ? [`no repository is configured: name one under repos in ${configPath}`] : [];

/** No fault, since a start without a config file must succeed. */
const withoutProgram = (config: Config): string[] => {
  const { agents, pipeline, configPath } = config;
  const worked = pipeline.stages.filter(({ name, agent }) => !isStagingRunners({ stage: name, agent }, config));
  const missing = [...new Set(worked.map(({ agent }) => agent))].filter((agent) => agentFor(agents, agent) === null);
  return missing.length === 0
    ? []
    : [`no program is configured for ${missing.join(", ")}: set agents.default, or each by its name, in ${configPath}`];
};

const unusedAgents = ({ agents, pipeline }: Config): string[] => {
  const used = [...new Set(pipeline.stages.map(({ agent }) => agent))];
  return Object.keys(agents)
    .filter((name) => name !== "default" && !used.includes(name))
    .map((name) => `agents.${name} is used by no stage of the pipeline, whose agents are ${used.join(", ")}`);
};

const passwords = ({ repos }: Config): string[] =>
  Object.entries(repos)
    .filter(([, { url }]) => holdsPassword(url))
    .map(([name]) => `repos.${name}.url holds a password, which git may print: use a credential helper instead`);

const switchedOff = ({ finalizerLivenessEnabled }: Config): string[] =>
  finalizerLivenessEnabled
    ? []
    : ["ORCH_FINALIZER_LIVENESS_ENABLED is false: the reaper may take a job from a finalizer that is at work"];

/** What a failing infrastructure leaves without a verdict is put off and comes again, which is how the staging runner works. */
const withoutEffect = (config: Config): string[] => {
  const index = config.pipeline.stages.findIndex(({ name, agent }) => isStagingRunners({ stage: name, agent }, config));
  return config.pipeline.stages[index]?.rerun === false
    ? [
        `pipeline.stages[${index}].rerun: false has no effect while the staging runner works the stage, whose runs without a ` +
          "verdict come again: set ORCH_STAGING_RUNNER_ENABLED=false to have an agent work it, or take the key out",
      ]
    : [];
};

/** For either service: somebody left in the environment what is meant for tests. */
export const faultPointWarning = ({ faultPoint }: Pick<Config, "faultPoint">): string[] =>
  faultPoint === null
    ? []
    : [`ORCH_FAULT_POINT is set: this process kills itself at ${faultPoint.name}, which is meant for tests alone`];
