import { isatty } from "node:tty";
import type { Config } from "@orchestrator/shared/config/config.ts";
import { loadConfig } from "@orchestrator/shared/config/load_config.ts";
import { EXIT, exitCodeOf, explain } from "@orchestrator/shared/exit.ts";
import { createGit, type Git } from "@orchestrator/shared/git/run_git.ts";
import { exitCodeOfSignal, onSignals, type StopSignal } from "@orchestrator/shared/serve.ts";

export interface Work {
  config: Config;
  git: Git;
  /** Writes a line for whoever runs the program. */
  say: (line: string) => void;
  /** Aborted by the first SIGTERM or SIGINT. */
  signal: AbortSignal;
}

export interface Tool {
  /** The standard stream that the backup goes through, which can be no terminal, and what to say where it is one. */
  stream: { fd: 0 | 1; usage: string };
  /** The configuration is what the program is to put back. */
  configMayBeMissing?: boolean;
  work: (work: Work) => Promise<void>;
  /** What an interruption has left, and what to do then. */
  interrupted: string;
}

/** What the programs for backups have in common: they are configured like a scheduler, do one thing, and end. */
export const runTool = async ({ stream, configMayBeMissing = false, work, interrupted }: Tool): Promise<void> => {
  const say = (line: string): void => void process.stderr.write(`${line}\n`);
  // It listens nowhere, so it needs no tokens of its own.
  const loaded = loadConfig({ ...process.env, ORCH_HOST: "127.0.0.1" }, { service: "scheduler", configMayBeMissing });
  if (loaded.kind === "invalid") {
    for (const fault of loaded.faults) say(fault);
    process.exit(EXIT.config);
  }
  if (isatty(stream.fd)) {
    say(stream.usage);
    process.exit(EXIT.usage);
  }
  const { config } = loaded;
  const stopping = new AbortController();
  onSignals((name) => stopping.abort(new Interruption(name)));
  try {
    const git = createGit({ instanceId: "", parentEnv: config.parentEnv, networkConfig: null });
    await work({ config, git, say, signal: stopping.signal });
  } catch (error) {
    if (error instanceof Interruption) {
      say(`interrupted (${error.by}): ${interrupted}`);
      process.exit(exitCodeOfSignal(error.by));
    }
    say(explain(error));
    process.exit(exitCodeOf(error));
  }
};

class Interruption extends Error {
  readonly by: StopSignal;

  constructor(by: StopSignal) {
    super(`interrupted (${by})`);
    this.name = "Interruption";
    this.by = by;
  }
}
