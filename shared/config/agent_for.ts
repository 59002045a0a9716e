import type { AgentConfig, Config } from "./config.ts";

/** The program for an agent: its own entry, else `default`, else null. */
export const agentFor = (agents: Config["agents"], name: string): AgentConfig | null =>
  (Object.hasOwn(agents, name) ? agents[name] : agents.default) ?? null;
