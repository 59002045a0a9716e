import { spawn } from "node:child_process";
import { once } from "node:events";
import { loadConfig } from "@orchestrator/shared/config/load_config.ts";
import { EXIT, exitCodeOf, explain } from "@orchestrator/shared/exit.ts";
import { createGit } from "@orchestrator/shared/git/run_git.ts";
import { restoreBackup } from "./restore_backup.ts";

// `npm run --silent restore < backup.tar`: what a backup holds, into the folders that the environment names. No scheduler may
// run there, and there must be no database yet.

const say = (line: string): void => void process.stderr.write(`${line}\n`);

// It listens nowhere, so it needs no tokens of its own.
const loaded = loadConfig({ ...process.env, ORCH_HOST: "127.0.0.1" }, { service: "scheduler" });
if (loaded.kind === "invalid") {
  for (const fault of loaded.faults) say(fault);
  process.exit(EXIT.config);
}
if (process.stdin.isTTY) {
  say("the backup is read from standard input, as in `npm run --silent restore < backup.tar`");
  process.exit(EXIT.usage);
}
const { config } = loaded;
try {
  const git = createGit({ instanceId: "", parentEnv: config.parentEnv, networkConfig: null });
  await restoreBackup({ config, git, say }, async (folder) => {
    const tar = spawn("tar", ["-x", "--no-same-owner", "-C", folder], { stdio: ["inherit", "ignore", "inherit"] });
    const [code] = (await once(tar, "exit")) as [number | null];
    if (code !== 0) throw new Error(`standard input is no backup: tar ended with ${code ?? "a signal"}`);
  });
} catch (error) {
  say(explain(error));
  process.exit(exitCodeOf(error));
}
