import { mkdir, mkdtemp, realpath, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { stringify } from "yaml";
import { freePorts } from "../demo/ports.ts";
import { git } from "../helpers/git.ts";
import { setPreReceive } from "../helpers/remote_repository.ts";
import type { ServiceName } from "./service.ts";

const AGENT = fileURLToPath(new URL("agent.sh", import.meta.url));

/** Real steps: one that can fail, one that leaves something running, one that looks at it. */
const PLAN = `version: 1
timeout_s: 60
steps:
  - name: build
    run: "! grep -r broken src"
  - name: deploy
    run: |
      sleep 300 >/dev/null 2>&1 &
      echo $! >server.pid
      sleep 0.1
  - name: smoke
    run: [sh, -c, 'kill -0 "$(cat server.pid)" && test "$(git rev-parse HEAD)" = "$ORCH_COMMIT"']
teardown:
  - name: stop
    run: kill "$(cat server.pid)"
`;

/** How the finished branch of each repository goes into its base; all that the configuration knows. */
export const REPOS = { shop: "merge", tool: "squash", docs: "none" } as const;
export type Repo = keyof typeof REPOS;

/** A folder with all that the services and their surroundings are made of. */
export interface CrashSite {
  folder: string;
  dataDir: string;
  dbUrl: string;
  /** What the agents note. */
  journal: string;
  schedulerUrl: string;
  remote(repo: string): string;
  mirror(repo: string): string;
  /** The environment of both services, but for `TMPDIR`. */
  env: Record<string, string>;
  /** The `TMPDIR` of each service, in which nobody else puts anything. */
  tempDirs: Record<ServiceName, string>;
}

const makeRemote = async (folder: string, name: string): Promise<void> => {
  const remote = join(folder, `${name}.git`);
  const seed = join(folder, `${name}-seed`);
  await git(folder, "init", "-q", "--bare", "-b", "main", remote);
  await git(folder, "init", "-q", "-b", "main", seed);
  await mkdir(join(seed, "src"));
  await mkdir(join(seed, ".orchestrator"));
  await writeFile(join(seed, "src", "first.txt"), "sound\n");
  await writeFile(join(seed, ".orchestrator", "staging.yaml"), PLAN);
  await git(seed, "add", "-A");
  await git(seed, "commit", "-q", "-m", "First");
  await git(seed, "push", "-q", remote, "main");
  // Some pushes take their time, so that a random moment finds one under way.
  await setPreReceive(remote, "[ $(($$ % 3)) -ne 0 ] || sleep 0.3");
};

export const makeCrashSite = async (): Promise<CrashSite> => {
  const folder = await realpath(await mkdtemp(join(tmpdir(), "orchestrator-crash-")));
  const dataDir = join(folder, "data");
  const tempOf = (whose: string): string => join(folder, `tmp-${whose}`);
  for (const whose of ["scheduler", "stager", "agents"]) await mkdir(tempOf(whose));
  for (const name of Object.keys(REPOS)) await makeRemote(folder, name);
  const [port = 0, stagerPort = 0] = await freePorts(2);
  const repos = Object.entries(REPOS).map(([name, merge]) => [name, { url: `${name}.git`, merge }]);
  const configPath = join(folder, "orchestrator.yaml");
  await writeFile(
    configPath,
    stringify({
      repos: Object.fromEntries(repos),
      agents: { default: { command: ["/bin/sh", AGENT], env: { CRASH_FOLDER: folder, TMPDIR: tempOf("agents") } } },
    }),
  );
  return {
    folder,
    dataDir,
    dbUrl: `file:${join(dataDir, "orchestrator.db")}`,
    journal: join(folder, "journal"),
    schedulerUrl: `http://127.0.0.1:${port}`,
    remote: (repo) => join(folder, `${repo}.git`),
    mirror: (repo) => join(dataDir, "repos", `${repo}.git`),
    env: {
      PATH: process.env.PATH ?? "/usr/local/bin:/usr/bin:/bin",
      HOME: folder,
      ORCH_DATA_DIR: dataDir,
      ORCH_CONFIG: configPath,
      ORCH_PORT: String(port),
      ORCH_STAGER_PORT: String(stagerPort),
      // Killed stagers are what is tested: each costs a defer, and the harness has not all day.
      ORCH_STAGING_DEFER_DELAY_MS: "200",
      ORCH_STAGING_MAX_DEFERS: "1000",
    },
    tempDirs: { scheduler: tempOf("scheduler"), stager: tempOf("stager") },
  };
};
