import { type ChildProcess, spawn } from "node:child_process";
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { systemClock } from "@orchestrator/shared/clock.ts";
import type { RepoConfig } from "@orchestrator/shared/config/config.ts";
import { createGit } from "@orchestrator/shared/git/run_git.ts";
import { createLog } from "@orchestrator/shared/log.ts";
import { DEFAULT_PIPELINE } from "@orchestrator/shared/pipeline.ts";
import { noPoints } from "@orchestrator/shared/points.ts";
import { findMarked } from "@orchestrator/shared/process/end_processes.ts";
import { type StagingEvent, type StagingResult, stagingEventSchema } from "@orchestrator/shared/schemas/staging_run.ts";
import type { StagingJob } from "@orchestrator/shared/storage/read_staging_job.ts";
import type { Hono } from "hono";
import * as v from "valibot";
import { onTestFinished } from "vitest";
import { ActiveRuns } from "../../services/stager/active_runs.ts";
import { createStagerApp } from "../../services/stager/app.ts";
import { RunCounters } from "../../services/stager/counters.ts";
import { Scratch } from "../../services/stager/scratch.ts";
import type { ReadJob } from "../../services/stager/staging_job.ts";
import { git } from "../helpers/git.ts";
import { tempFolder } from "../helpers/temp_folder.ts";

export const BRANCH = "work/ORCH-115";
const PATH = "/usr/local/bin:/usr/bin:/bin";

/** A mirror as the scheduler keeps it, and the commits that stand in it. */
export interface TestMirror {
  reposDir: string;
  gitDir: string;
  /** The branch's tip. */
  commit: string;
  base: string;
  /** Puts one more commit on the branch. */
  commitFiles(files: Record<string, string>): Promise<string>;
}

/** Files whose name begins with `scripts/` are made executable. */
export const makeMirror = async (
  folder: string,
  files: Record<string, string>,
  baseFiles: Record<string, string> = files,
): Promise<TestMirror> => {
  const seed = join(folder, "seed");
  const gitDir = join(folder, "repos", "shop.git");
  await mkdir(dirname(gitDir), { recursive: true });
  await git(folder, "init", "-q", "--bare", gitDir);
  await git(folder, "init", "-q", "-b", "main", seed);
  const commitAll = async (content: Record<string, string>): Promise<string> => {
    for (const [path, text] of Object.entries(content)) {
      await mkdir(dirname(join(seed, path)), { recursive: true });
      await writeFile(join(seed, path), text, { mode: path.startsWith("scripts/") ? 0o755 : 0o644 });
    }
    await git(seed, "add", "-A");
    await git(seed, "commit", "-q", "--allow-empty", "-m", "a commit");
    return git(seed, "rev-parse", "HEAD");
  };
  const base = await commitAll({ "README.md": "shop\n", ...baseFiles });
  await git(seed, "push", "-q", gitDir, "HEAD:refs/remotes/origin/main");
  await git(seed, "checkout", "-q", "-b", BRANCH);
  const commitFiles = async (content: Record<string, string>): Promise<string> => {
    const commit = await commitAll(content);
    await git(seed, "push", "-q", gitDir, `HEAD:refs/heads/${BRANCH}`);
    return commit;
  };
  return { reposDir: dirname(gitDir), gitDir, commit: await commitFiles(files), base, commitFiles };
};

export interface TestStagerOptions {
  files?: Record<string, string>;
  baseFiles?: Record<string, string>;
  /** The staging plan of the branch, in place of one in `files`. */
  plan?: string;
  repo?: Partial<RepoConfig>;
  job?: Partial<StagingJob>;
  parentEnv?: Record<string, string>;
  token?: string | null;
  killGraceMs?: number;
  /** `ORCH_SCRATCH_DIR`. Default: a folder of the test's own. */
  scratchDir?: string;
  heartbeatMs?: number;
  rereadMs?: number;
  /** In place of reading the one job that there is. */
  readJob?: ReadJob;
}

export interface TestStager {
  folder: string;
  mirror: TestMirror;
  scratch: Scratch;
  app: Hono;
  runs: ActiveRuns;
  instanceId: string;
  /** What the database says about the job; a test may change it. */
  job: StagingJob;
  post(request?: Record<string, unknown>, headers?: Record<string, string>): Promise<Response>;
  /** Asks for a run and reads it to its end. */
  run(runId?: number): Promise<StagingRun>;
  /** Processes of this stager's runs. */
  processes(): number;
}

export interface StagingRun {
  events: StagingEvent[];
  result: StagingResult;
  /** `name state` of each step event. */
  steps: string[];
  /** What the steps printed. */
  output: string;
}

let stagers = 0;

export const makeStager = async (options: TestStagerOptions = {}): Promise<TestStager> => {
  const folder = await tempFolder();
  const plan: Record<string, string> = options.plan === undefined ? {} : { ".orchestrator/staging.yaml": options.plan };
  const files = { ...options.files, ...plan };
  const mirror = await makeMirror(folder, files, options.baseFiles);
  const scratch = await Scratch.open(options.scratchDir ?? join(folder, "scratch"));
  stagers += 1;
  const instanceId = `instance-${process.pid}-${stagers}`;
  const job: StagingJob = {
    workItemId: "ORCH-115",
    repo: "shop",
    branch: BRANCH,
    baseBranch: "main",
    head: mirror.commit,
    stage: "deploy-staging",
    taskContent: "Ship it.",
    agent: "deployer",
    jobStatus: "running",
    jobRunId: 9,
    taskStatus: "active",
    ...options.job,
  };
  const shop: RepoConfig = {
    url: "/nowhere",
    baseBranch: "main",
    push: true,
    merge: "none",
    environment: "shop",
    plan: "branch",
    ...options.repo,
  };
  const counters = new RunCounters();
  const readJob: ReadJob =
    options.readJob ?? (async ({ job_id, task_id }) => (job_id === 7 && task_id === 3 ? job : null));
  const log = createLog({ level: "silent", service: "stager", secrets: [] });
  const parentEnv = options.parentEnv ?? { PATH, HOME: folder };
  const config = {
    reposDir: mirror.reposDir,
    repos: { shop },
    pipeline: DEFAULT_PIPELINE,
    parentEnv,
    killGraceMs: options.killGraceMs ?? 2000,
    stagingDeferDelayMs: 30_000,
    stagingMaxDefers: 10,
    stagingDeferMaxMs: 6 * 3_600_000,
    stagerToken: options.token ?? null,
  };
  const runs = new ActiveRuns({
    ...{ config, points: noPoints, clock: systemClock, log, scratch, counters, readJob },
    git: (id) => createGit({ instanceId: id, parentEnv, networkConfig: null }),
    ...(options.heartbeatMs === undefined ? {} : { heartbeatMs: options.heartbeatMs }),
    ...(options.rereadMs === undefined ? {} : { rereadMs: options.rereadMs }),
  });
  onTestFinished(async () => {
    await runs.stop();
    await scratch.close();
  });
  const app = createStagerApp({
    ...{ config, clock: systemClock, log, runs, counters, readJob },
    readInstanceId: async () => instanceId,
    readiness: async () => [],
  }) as unknown as Hono;
  const post: TestStager["post"] = async (request = { job_id: 7, run_id: 9, task_id: 3 }, headers = {}) =>
    app.request("/runs", {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify(request),
    });
  return {
    ...{ folder, mirror, scratch, app, runs, instanceId, job, post },
    run: async (runId = 9) => {
      job.jobRunId = runId;
      return readRun(await post({ job_id: 7, run_id: runId, task_id: 3 }));
    },
    processes: () => findMarked({ instanceId }).length,
  };
};

/** Reads a stream to its end, and holds every line against the contract's schema. */
export const readRun = async (response: Response): Promise<StagingRun> => {
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  const events = (await response.text())
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => v.parse(stagingEventSchema, JSON.parse(line)));
  const result = events.at(-1);
  if (result?.event !== "result") throw new Error(`the stream ended with ${JSON.stringify(result)}`);
  return {
    events,
    result,
    steps: events.flatMap((event) => (event.event === "step" ? [`${event.name} ${event.state}`] : [])),
    output: events.map((event) => (event.event === "output" ? event.text : "")).join(""),
  };
};

/** Reads a stream line by line, for as long as a test wants to. */
export const eventsOf = async function* (body: ReadableStream<Uint8Array>): AsyncGenerator<StagingEvent> {
  const decoder = new TextDecoder();
  let pending = "";
  for await (const chunk of body) {
    pending += decoder.decode(chunk, { stream: true });
    const lines = pending.split("\n");
    pending = lines.pop() ?? "";
    for (const line of lines) yield v.parse(stagingEventSchema, JSON.parse(line));
  }
};

export const until = async (condition: () => boolean | Promise<boolean>): Promise<void> => {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 10));
};

export const freePort = async (): Promise<number> => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
};

/** Every file below a folder with its size and time: whether anything has been written there. */
export const fingerprint = async (folder: string): Promise<string[]> => {
  const { lstat } = await import("node:fs/promises");
  const names = await readdir(folder, { recursive: true });
  const entries = names.sort().map(async (name) => {
    const { size, mtimeMs, ino } = await lstat(join(folder, name));
    return `${name} ${size} ${mtimeMs} ${ino}`;
  });
  return Promise.all(entries);
};

/** A program of the test's own, ended with the test. */
export const startProgram = (
  argv: readonly [string, ...string[]],
  options: { env: Record<string, string>; cwd: string },
): ChildProcess => {
  const child = spawn(argv[0], argv.slice(1), { ...options, stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await exited;
  });
  return child;
};
