import { STAGING_AGENT, STAGING_STAGE } from "../domain.ts";
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
];

const withoutRepos = ({ repos, configPath }: Config): string[] =>
  Object.keys(repos).length === 0 ? [`no repository is configured: name one under repos in ${configPath}`] : [];

/** No fault, since a start without a config file must succeed. */
const withoutProgram = ({ agents, pipeline, stagingRunnerEnabled, configPath }: Config): string[] => {
  const worked = pipeline.stages.filter(
    ({ name, agent }) => !(stagingRunnerEnabled && name === STAGING_STAGE && agent === STAGING_AGENT),
  );
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

/** For either service: somebody left in the environment what is meant for tests. */
export const faultPointWarning = ({ faultPoint }: Pick<Config, "faultPoint">): string[] =>
  faultPoint === null
    ? []
    : [`ORCH_FAULT_POINT is set: this process kills itself at ${faultPoint.name}, which is meant for tests alone`];
