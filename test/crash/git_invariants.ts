import { readdir } from "node:fs/promises";
import { STAGING_STAGE } from "@orchestrator/shared/domain.ts";
import { readFrontmatter } from "@orchestrator/shared/frontmatter.ts";
import type { Task } from "@orchestrator/shared/schemas/rows.ts";
import { git } from "../helpers/git.ts";
import type { Snapshot } from "./database.ts";
import { isMove, type Violation } from "./invariants.ts";
import type { Journal } from "./journal.ts";
import { type CrashSite, REPOS, type Repo } from "./site.ts";

const ORCHESTRATOR = "orchestrator@localhost";

interface Commit {
  sha: string;
  parents: string[];
  mail: string;
  /** Of the trailer `Orchestrator-Run`; null where there is none. */
  runId: number | null;
}

const commitsOf = async (repo: string, range: string[]): Promise<Commit[]> => {
  const format = "--format=%H%x00%P%x00%ae%x00%(trailers:key=Orchestrator-Run,valueonly,separator=%x2C)";
  const text = await git(repo, "log", "--reverse", "--topo-order", format, ...range);
  const lines = text === "" ? [] : text.split("\n");
  return lines.map((line) => {
    const [sha = "", parents = "", mail = "", run = ""] = line.split("\0");
    return { sha, parents: parents.split(" ").filter(Boolean), mail, runId: run === "" ? null : Number(run) };
  });
};

const tipOf = async (repo: string, ref: string): Promise<string | null> =>
  (await git(repo, "for-each-ref", "--format=%(objectname)", ref)) || null;

/**
 * What must hold between a dead scheduler's database and the remote: the branch stands where the last settle left it, or
 * ahead of that by commits of runs of this very task, whose settle was lost.
 */
export const checkBranches = async (site: CrashSite, { tasks, runs, events }: Snapshot): Promise<Violation[]> => {
  const owner = new Map(runs.map((run) => [run.id, run.taskId]));
  const violations: Violation[] = [];
  for (const task of tasks) {
    const remote = site.remote(task.repo);
    const tip = await tipOf(remote, `refs/heads/${task.branch}`);
    const hasMoved = events.some((event) => event.taskId === task.id && isMove(event));
    if (tip === null && hasMoved) violations.push(`${task.branch} is gone`);
    if (tip === task.head || tip === null) continue;
    const [last] = await commitsOf(remote, ["-1", tip]);
    const lacks = task.head === null ? "" : await git(remote, "rev-list", task.head, "--not", tip);
    if (lacks !== "" || owner.get(last?.runId ?? 0) !== task.id)
      violations.push(
        `${task.branch} stands at ${tip}, which is not what ${task.workItemId} has made since ${task.head}`,
      );
  }
  return violations;
};

/** What must hold when all is done: the branch is the chain of what was settled, and nothing else. */
export const checkHistory = async (site: CrashSite, seen: Snapshot): Promise<Violation[]> => {
  const violations: Violation[] = [];
  for (const task of seen.tasks) {
    const found = await checkTask(site, seen, task);
    violations.push(...found.map((text) => `${task.workItemId}: ${text}`));
  }
  for (const repo of Object.keys(REPOS) as Repo[]) {
    const found = [...(await checkBase(site, seen, repo)), ...(await checkMirror(site, repo))];
    violations.push(...found.map((text) => `${repo}: ${text}`));
  }
  return violations;
};

const checkTask = async (site: CrashSite, { events, runs }: Snapshot, task: Task): Promise<Violation[]> => {
  const remote = site.remote(task.repo);
  const tip = await tipOf(remote, `refs/heads/${task.branch}`);
  if (tip !== task.head) return [`head is ${task.head}, the remote branch stands at ${tip}`];
  if ((await tipOf(site.mirror(task.repo), `refs/heads/${task.branch}`)) !== tip)
    return [`the mirror's branch is not at ${tip}`];
  const moves = events.filter((event) => event.taskId === task.id && isMove(event));

  const violations: Violation[] = [];
  const commits = await branchCommits(remote, tip ?? "");
  const own = commits.filter((commit) => commit.mail === ORCHESTRATOR);
  const runOf = new Map(runs.map((run) => [run.id, run]));
  for (const [index, commit] of own.entries()) {
    const run = runOf.get(commit.runId ?? 0);
    if (run?.taskId !== task.id) violations.push(`${commit.sha} is of run ${commit.runId}, which is not its own`);
    if (index > 0 && (own[index - 1]?.runId ?? 0) >= (commit.runId ?? 0))
      violations.push(`run ${commit.runId} comes after run ${own[index - 1]?.runId} on the branch`);
    const isHead = moves.some((move) => move.detail.head === commit.sha);
    // A staging run that was killed between its push and its settle is run again, on top of the log that it left.
    if (!isHead && !(run?.stage === STAGING_STAGE && run.outcome === "interrupted"))
      violations.push(`${commit.sha} of run ${commit.runId} (${run?.stage}) is on the branch and was never settled`);
  }
  for (const { runId, detail } of moves) {
    const commit = own.find(({ sha }) => sha === detail.head);
    const run = runOf.get(commit?.runId ?? 0);
    if (commit === undefined) violations.push(`${detail.head}, which run ${runId} recorded, is not on the branch`);
    // A job that a person retries goes on with what an agent had finished for the one before.
    else if (run?.stage !== detail.from)
      violations.push(`run ${runId} recorded ${commit.sha} for ${detail.from}, which a run of ${run?.stage} has made`);
    if (commit !== undefined && detail.from === STAGING_STAGE)
      violations.push(...(await checkStagingLog(remote, commit, task)));
  }
  return violations;
};

/** The line of a branch from where it left the base, oldest first; what was merged into the base meanwhile is not on it. */
const branchCommits = async (remote: string, tip: string): Promise<Commit[]> => {
  const base = new Set((await commitsOf(remote, ["--first-parent", "main"])).map(({ sha }) => sha));
  const line = await commitsOf(remote, ["--first-parent", tip]);
  return line.slice(line.findLastIndex(({ sha }) => base.has(sha)) + 1);
};

/** The staging log is all that its commit adds, and speaks of the commit that is its only parent. */
const checkStagingLog = async (remote: string, commit: Commit, task: Task): Promise<Violation[]> => {
  const path = `docs/work-items/${task.workItemId}/15-staging-log.md`;
  const violations: Violation[] = [];
  if (commit.parents.length !== 1)
    violations.push(`the staging log ${commit.sha} has ${commit.parents.length} parents`);
  const changed = await git(remote, "diff-tree", "-r", "--no-commit-id", "--name-only", commit.sha);
  if (changed !== path) violations.push(`the staging log's commit changes ${changed.replaceAll("\n", ", ")}`);
  const reading = readFrontmatter(Buffer.from(await git(remote, "show", `${commit.sha}:${path}`)));
  if (reading.kind !== "ok") return [...violations, `the staging log cannot be read: ${reading.message}`];
  if (reading.data.commit !== commit.parents[0] || Number(reading.data.run_id) !== commit.runId)
    violations.push(`the staging log is of run ${reading.data.run_id} and commit ${reading.data.commit}`);
  return violations;
};

/** What an agent had written is kept in the mirror, however its run ended. */
export const checkKept = async (site: CrashSite, { tasks }: Snapshot, { notes }: Journal): Promise<Violation[]> => {
  const kept = new Set<number>();
  for (const repo of Object.keys(REPOS)) {
    const refs = await git(site.mirror(repo), "for-each-ref", "--format=%(refname:lstrip=3)", "refs/orchestrator");
    for (const ref of refs.split("\n")) kept.add(Number(ref));
  }
  const known = new Set(tasks.map((task) => task.workItemId));
  return notes
    .filter(({ kind, runId, workItemId }) => kind === "wrote" && known.has(workItemId) && !kept.has(runId))
    .map(({ runId, workItemId }) => `lost: what run ${runId} of ${workItemId} had written is in no ref`);
};

/** Each finished task is in its base exactly once, where the repository is configured so. */
const checkBase = async (site: CrashSite, { tasks }: Snapshot, repo: Repo): Promise<Violation[]> => {
  const how = REPOS[repo];
  const base = await commitsOf(site.remote(repo), ["--first-parent", "main"]);
  const merges = base.filter((commit) => commit.mail === ORCHESTRATOR);
  const done = tasks.filter((task) => task.repo === repo && task.status === "done");
  if (how === "none") return merges.length === 0 ? [] : [`${merges.length} commits were made on main`];
  const subjects = (
    await git(site.remote(repo), "log", "--first-parent", `--author=${ORCHESTRATOR}`, "--format=%s", "main")
  )
    .split("\n")
    .filter(Boolean);
  return done.flatMap((task) => {
    const n = subjects.filter((subject) => subject.startsWith(`${task.workItemId}: `)).length;
    return n === 1 ? [] : [`${task.workItemId} is in main ${n} times`];
  });
};

/** What a killed git may have spoilt. */
const checkMirror = async (site: CrashSite, repo: Repo): Promise<Violation[]> => {
  const mirror = site.mirror(repo);
  const names = await readdir(mirror, { recursive: true });
  const locks = names.filter((name) => name.endsWith(".lock"));
  await git(mirror, "fsck", "--connectivity-only", "--no-dangling");
  return locks.map((name) => `${name} was left in the mirror`);
};
