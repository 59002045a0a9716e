import { systemClock } from "@orchestrator/shared/clock.ts";
import { loadConfig } from "@orchestrator/shared/config/load_config.ts";
import { secretsOf } from "@orchestrator/shared/config/secrets.ts";
import { EXIT } from "@orchestrator/shared/exit.ts";
import { createGit } from "@orchestrator/shared/git/run_git.ts";
import { createTextRedactor } from "@orchestrator/shared/redact.ts";
import { onSignals } from "@orchestrator/shared/serve.ts";
import { startChecks, TIMEOUTS_MS } from "./checks.ts";
import { type Finding, fail, ok, oneLine, showFinding, showSum, warn } from "./finding.ts";

// Looks at everything the services need and says what it found: `npm run doctor`, with `-- --json` for programs. Exit code 0
// where nothing failed, 1 otherwise, 78 for a configuration with which no service would start.

const args = process.argv.slice(2);
if (args.some((arg) => arg !== "--json")) {
  process.stderr.write("usage: npm run doctor [-- --json]\n");
  process.exit(EXIT.usage);
}
const asJson = args.includes("--json");

const loaded = loadConfig(process.env, { service: "scheduler" });
const redact = createTextRedactor(loaded.kind === "ok" ? secretsOf(loaded.config) : []);
const shown: Finding[] = [];
const stopping = new AbortController();
const show = (findings: readonly Finding[]): void => {
  if (stopping.signal.aborted) return;
  for (const { check, level, found, todo } of findings) {
    const clean = { check, level, found: oneLine(redact(found)), todo: todo === null ? null : oneLine(redact(todo)) };
    shown.push(clean);
    if (!asJson) process.stdout.write(`${showFinding(clean)}\n`);
  }
};
const end = (exitCode: number): never => {
  const answer = asJson ? JSON.stringify({ ok: exitCode === EXIT.ok, findings: shown }) : showSum(shown);
  process.stdout.write(`${answer}\n`);
  process.exit(exitCode);
};

if (loaded.kind === "invalid") {
  show(loaded.faults.map((fault) => fail("config", fault, null)));
  end(EXIT.config);
} else {
  const { config, warnings } = loaded;
  onSignals(() => stopping.abort(new Error("interrupted")));
  const count = (record: object): number => Object.keys(record).length;
  show([
    ok("config", `${config.configPath}: repos ${count(config.repos)}, agents ${count(config.agents)}`),
    ...warnings.map((text) => warn("config", text, null)),
  ]);
  const git = createGit({ instanceId: "", parentEnv: config.parentEnv, networkConfig: config.gitNetworkConfig });
  // All run at once; each is shown when those before it have been.
  const context = { config, git, clock: systemClock, signal: stopping.signal, timeoutsMs: TIMEOUTS_MS };
  const started = startChecks(context);
  for (const findings of started) show(await findings);
  if (stopping.signal.aborted) process.exit(130);
  end(shown.some(({ level }) => level === "fail") ? EXIT.failure : EXIT.ok);
}
