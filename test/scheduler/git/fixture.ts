import { execFile } from "node:child_process";
import { access, chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import type { RepoConfig } from "@orchestrator/shared/config/config.ts";
import { createGit, type Git } from "@orchestrator/shared/git/run_git.ts";
import { isRunning, listPids, readEnviron, readProcess } from "@orchestrator/shared/process/proc_table.ts";
import { type Collected, collectWork } from "../../../services/scheduler/git/collect.ts";
import { type Kept, keepWork } from "../../../services/scheduler/git/keep_work.ts";
import { createMirrors, type Mirror } from "../../../services/scheduler/git/mirror.ts";
import { prepareWorkspace, type Workspace } from "../../../services/scheduler/git/workspace.ts";

const run = promisify(execFile);

export const ARTIFACT = "docs/work-items/W-1/01-requirements.md";
export const BRANCH = "work/W-1";

let instances = 0;

/** A temporary directory with a remote, somebody's clone of it, and a mirror. */
export interface Fixture {
  dir: string;
  git: Git;
  instanceId: string;
  /** The remote: bare, with branch `main` of one commit. */
  origin: string;
  /** Somebody's clone, from which commits get into the remote. */
  clone: string;
  /** Tip of the remote's `main` at the beginning. */
  base: string;
  mirror: Mirror;
  /** The same mirror under another configuration. */
  mirrorWith(repo: Partial<RepoConfig>): Mirror;
  prepare(options?: Partial<Parameters<typeof prepareWorkspace>[0]>): Promise<Workspace>;
  collect(workspace: string, options?: Partial<Parameters<typeof collectWork>[0]>): Promise<Collected>;
  keep(workspace: string, options?: Partial<Parameters<typeof keepWork>[0]>): Promise<Kept>;
  /** Makes a commit with these files in somebody's clone and pushes it. */
  commitAtRemote(branch: string, files: Record<string, string>, message?: string): Promise<string>;
  /** What a git command says about the mirror. */
  ask(...args: string[]): Promise<string>;
  /** Whether processes that carry this fixture's mark are running. */
  leftovers(): number[];
  remove(): Promise<void>;
}

/** A git without supervision, as a person or an agent would use it. */
export const plainGit = async (cwd: string, ...args: string[]): Promise<string> => {
  const env = {
    PATH: process.env.PATH ?? "",
    HOME: "/nonexistent",
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_AUTHOR_NAME: "Somebody",
    GIT_AUTHOR_EMAIL: "somebody@example.org",
    GIT_COMMITTER_NAME: "Somebody",
    GIT_COMMITTER_EMAIL: "somebody@example.org",
  };
  const { stdout } = await run("git", args, { cwd, env, maxBuffer: 64 * 1024 * 1024 });
  return stdout.trimEnd();
};

export const write = async (root: string, files: Record<string, string | Uint8Array>): Promise<void> => {
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), content);
  }
};

export const script = async (path: string, body: string): Promise<string> => {
  await writeFile(path, `#!/bin/sh\n${body}\n`);
  await chmod(path, 0o755);
  return path;
};

export const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

export const until = async (condition: () => boolean | Promise<boolean>): Promise<void> => {
  while (!(await condition())) await sleep(5);
};

export const makeFixture = async (files: Record<string, string> = {}): Promise<Fixture> => {
  const dir = await mkdtemp(join(tmpdir(), "orchestrator-git-"));
  instances += 1;
  const instanceId = `git-test-${process.pid}-${instances}`;
  const git = createGit({ instanceId, parentEnv: { PATH: process.env.PATH ?? "" }, networkConfig: null });
  const origin = join(dir, "origin.git");
  const clone = join(dir, "somebody");
  await plainGit(dir, "init", "--quiet", "--initial-branch=main", "--template=", clone);
  await write(clone, { "README.md": "# Shop\n", "src/index.js": "export const answer = 41;\n", ...files });
  await plainGit(clone, "add", "--all", "--force");
  await plainGit(clone, "commit", "--quiet", "-m", "Begin");
  await plainGit(dir, "clone", "--quiet", "--bare", "--template=", clone, origin);
  await plainGit(clone, "remote", "add", "origin", origin);
  const base = await plainGit(clone, "rev-parse", "HEAD");

  const repo: RepoConfig = {
    url: origin,
    baseBranch: "main",
    push: true,
    merge: "none",
    environment: "shop",
    plan: "branch",
  };
  const reposDir = join(dir, "repos");
  const mirrorWith = (changes: Partial<RepoConfig>): Mirror =>
    createMirrors({ git, reposDir, repos: { shop: { ...repo, ...changes } } }).get("shop");
  const mirror = mirrorWith({});
  await mirror.fetch();
  const fence = async () => {};

  const fixture: Fixture = {
    dir,
    git,
    instanceId,
    origin,
    clone,
    base,
    mirror,
    mirrorWith,
    prepare: (options) =>
      prepareWorkspace({
        git,
        mirror,
        workspacesDir: join(dir, "workspaces"),
        workItemId: "W-1",
        branch: BRANCH,
        baseBranch: "main",
        start: base,
        staleArtifact: ARTIFACT,
        ...options,
      }),
    collect: (workspace, options) =>
      collectWork({
        git,
        mirror,
        workspace,
        start: base,
        artifact: ARTIFACT,
        message: "analysis: W-1",
        runId: 1,
        fence,
        ...options,
      }),
    keep: (workspace, options) =>
      keepWork({ git, mirror, workspace, start: base, artifact: ARTIFACT, runId: 1, fence, ...options }),
    commitAtRemote: async (branch, changes, message = "Change") => {
      await plainGit(clone, "fetch", "--quiet", "origin");
      const known = await plainGit(clone, "branch", "--remotes", "--list", `origin/${branch}`);
      await plainGit(clone, "checkout", "--quiet", "-B", branch, known === "" ? "origin/main" : `origin/${branch}`);
      await write(clone, changes);
      await plainGit(clone, "add", "--all");
      await plainGit(clone, "commit", "--quiet", "-m", message);
      await plainGit(clone, "push", "--quiet", "origin", branch);
      return plainGit(clone, "rev-parse", "HEAD");
    },
    ask: (...args) => plainGit(mirror.gitDir, ...args),
    leftovers: () =>
      listPids().filter((pid) => {
        const entry = readProcess(pid);
        return entry !== null && isRunning(entry) && readEnviron(pid)?.ORCH_INSTANCE_ID === instanceId;
      }),
    remove: () => rm(dir, { recursive: true, force: true }),
  };
  return fixture;
};
