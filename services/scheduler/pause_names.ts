import type { Config } from "@orchestrator/shared/config/config.ts";
import type { InputError } from "@orchestrator/shared/http/problem.ts";

/** What a person names to be paused or resumed; nothing named means all. */
export interface PauseTarget {
  agent?: string | undefined;
  repo?: string | undefined;
  staging?: true | undefined;
}

/** The names under which the parts are paused: `agent:<name>`, `repo:<name>`, `staging`; empty where nothing is named. */
export const pauseNames = ({ agent, repo, staging }: PauseTarget): string[] => [
  ...(agent === undefined ? [] : [`agent:${agent}`]),
  ...(repo === undefined ? [] : [`repo:${repo}`]),
  ...(staging === undefined ? [] : ["staging"]),
];

/**
 * The faults of a target: agents and repositories that the configuration does not know. What is paused already is known
 * all the same, since the configuration may have changed since then.
 */
export const unknownNames = (
  target: PauseTarget,
  { pipeline, agents, repos }: Pick<Config, "pipeline" | "agents" | "repos">,
  paused: ReadonlySet<string> = new Set(),
): InputError[] => {
  const knownAgents = new Set([...pipeline.stages.map((stage) => stage.agent), ...Object.keys(agents)]);
  knownAgents.delete("default");
  const faults = [
    fault("agent", target.agent, [...knownAgents], paused),
    fault("repo", target.repo, Object.keys(repos), paused),
  ];
  return faults.filter((error) => error !== null);
};

const fault = (
  path: "agent" | "repo",
  name: string | undefined,
  known: readonly string[],
  paused: ReadonlySet<string>,
): InputError | null => {
  if (name === undefined || known.includes(name) || paused.has(`${path}:${name}`)) return null;
  const names = known.length === 0 ? "none is configured" : known.join(", ");
  return { path, message: `must be ${path === "agent" ? "an agent" : "a repository"} of the configuration: ${names}` };
};
