import { spawn } from "node:child_process";
import { once } from "node:events";
import { loadConfig } from "@orchestrator/shared/config/load_config.ts";
import { EXIT, exitCodeOf, explain } from "@orchestrator/shared/exit.ts";
import { createGit } from "@orchestrator/shared/git/run_git.ts";
import { onSignals } from "@orchestrator/shared/serve.ts";
import { gatherBackup } from "./gather_backup.ts";

// `npm run --silent backup > backup.tar`: database, mirrors, configuration and tokens of a scheduler that may go on working.

const say = (line: string): void => void process.stderr.write(`${line}\n`);

// It listens nowhere, so it needs no tokens of its own.
const loaded = loadConfig({ ...process.env, ORCH_HOST: "127.0.0.1" }, { service: "scheduler" });
if (loaded.kind === "invalid") {
  for (const fault of loaded.faults) say(fault);
  process.exit(EXIT.config);
}
if (process.stdout.isTTY) {
  say("the backup is a tar file on standard output: send it into one, as in `npm run --silent backup > backup.tar`");
  process.exit(EXIT.usage);
}
const { config } = loaded;
const stopping = new AbortController();
onSignals(() => stopping.abort(new Error("interrupted")));
try {
  const git = createGit({ instanceId: "", parentEnv: config.parentEnv, networkConfig: null });
  await gatherBackup({ config, git, say, signal: stopping.signal }, async (folder) => {
    const tar = spawn("tar", ["-c", "-C", folder, "."], { stdio: ["ignore", "inherit", "inherit"] });
    const [code] = (await once(tar, "exit")) as [number | null];
    if (code !== 0) throw new Error(`tar ended with ${code ?? "a signal"}`);
  });
} catch (error) {
  say(explain(error));
  process.exit(exitCodeOf(error));
}
