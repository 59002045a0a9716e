import type { Config } from "./config.ts";

export interface LoadOptions {
  /** What relative paths of the environment are relative to; default: the process's working directory. */
  cwd?: string;
  service: "scheduler" | "stager";
}

export type LoadedConfig = { kind: "ok"; config: Config; warnings: string[] } | { kind: "invalid"; faults: string[] };

export function loadConfig(_env: Readonly<Record<string, string | undefined>>, _options?: LoadOptions): LoadedConfig {
  throw new Error("not yet");
}
