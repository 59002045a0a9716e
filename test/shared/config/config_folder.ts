import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type LoadedConfig, loadConfig } from "@orchestrator/shared/config/load_config.ts";
import { afterAll } from "vitest";

/** A directory with a config file in it, for one test file; it is removed at the end. */
export const configFolder = () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "config-")));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, "orchestrator.yaml");

  /** Loads this text as the config file. */
  const load = (
    yaml: string | Uint8Array,
    env: Record<string, string | undefined> = {},
    service: "scheduler" | "stager" = "scheduler",
  ): LoadedConfig => {
    writeFileSync(path, yaml);
    return loadConfig({ ORCH_CONFIG: path, ...env }, { cwd: folder, service });
  };
  return { folder, path, load };
};

export const faultsOf = (loaded: LoadedConfig): string[] => (loaded.kind === "invalid" ? loaded.faults : []);

export const configOf = (loaded: LoadedConfig) => {
  if (loaded.kind === "invalid") throw new Error(loaded.faults.join("\n"));
  return loaded.config;
};

export const warningsOf = (loaded: LoadedConfig): string[] => {
  if (loaded.kind === "invalid") throw new Error(loaded.faults.join("\n"));
  return loaded.warnings;
};
