import { execFile } from "node:child_process";
import { cp, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const runFile = promisify(execFile);
const sampleProject = fileURLToPath(new URL("sample", import.meta.url));

/** What `git <args>` printed; rejects with what git said where it failed. */
export type Git = (...args: string[]) => Promise<string>;

export const makeGit =
  (env: Record<string, string>, directory: string): Git =>
  async (...args) => {
    const { stdout } = await runFile("git", args, { cwd: directory, env });
    return stdout;
  };

export interface SampleRepository {
  /** The bare repository that plays the remote. */
  remote: string;
  /** Git in that repository. */
  git: Git;
}

/**
 * What staging does with a branch: test it, serve it, and ask whether this very commit is what answers.
 * The deploy step leaves its server running for the step after it.
 */
const stagingPlan = (command: readonly string[], port: number): string => `version: 1
timeout_s: 60
env: { APP_PORT: "${port}" }
steps:
  - name: test
    run: [${command.join(", ")}, test.js]
  - name: deploy
    timeout_s: 20
    run: |
      ${command.join(" ")} main.js > server.log 2>&1 &
      echo $! > server.pid
      until grep listening server.log; do kill -0 $! || exit 1; sleep 0.1; done
  - name: smoke
    http: { url: "http://127.0.0.1:${port}/version", status: 200, body: "{commit}", attempts: 3, interval_s: 0.5, timeout_s: 5 }
teardown:
  - name: stop
    run: kill "$(cat server.pid)"
`;

/**
 * Makes `<directory>/greeter.git`, a bare repository with a small HTTP server and its staging plan on `main`.
 *
 * @param command how the project's scripts are run, for example `["node"]`.
 * @param port the free port that staging serves the branch on.
 */
export const makeSampleRepository = async (options: {
  directory: string;
  command: readonly string[];
  port: number;
  env: Record<string, string>;
}): Promise<SampleRepository> => {
  const { directory, command, port, env } = options;
  const remote = join(directory, "greeter.git");
  const source = join(directory, "greeter");
  await cp(sampleProject, source, { recursive: true });
  await mkdir(join(source, ".orchestrator"));
  await writeFile(join(source, ".orchestrator/staging.yaml"), stagingPlan(command, port));

  const git = makeGit(env, source);
  await makeGit(env, directory)("init", "--quiet", "--bare", "--initial-branch=main", remote);
  await git("init", "--quiet", "--initial-branch=main");
  await git("add", ".");
  await git("commit", "--quiet", "-m", "Serve a greeter");
  await git("push", "--quiet", remote, "main");
  return { remote, git: makeGit(env, remote) };
};
