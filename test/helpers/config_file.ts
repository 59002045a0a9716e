import { writeFile } from "node:fs/promises";
import { stringify } from "yaml";
import type { Site } from "./scheduler.ts";

/** Writes a site's repositories and agents as the configuration file that a service reads. @returns its path. */
export const writeConfigFile = async ({ config }: Site): Promise<string> => {
  const repos = Object.entries(config.repos).map(([name, repo]) => [
    name,
    { url: repo.url, base_branch: repo.baseBranch, push: repo.push, environment: repo.environment, plan: repo.plan },
  ]);
  const agents = Object.entries(config.agents).map(([name, { command, env }]) => [name, { command, env }]);
  const text = stringify({ repos: Object.fromEntries(repos), agents: Object.fromEntries(agents) });
  await writeFile(config.configPath, text);
  return config.configPath;
};
