import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CommittedFile } from "@orchestrator/shared/artifact.ts";
import type { Config, RepoConfig } from "@orchestrator/shared/config/config.ts";
import { readCommittedFile } from "@orchestrator/shared/git/read_committed_file.ts";
import { type GitOptions, gitFailure } from "@orchestrator/shared/git/run_git.ts";
import { isThere } from "@orchestrator/shared/is_there.ts";
import { isStagingRunners } from "@orchestrator/shared/pipeline.ts";
import { inTempFolder } from "@orchestrator/shared/process/in_temp_folder.ts";
import { createTextRedactor } from "@orchestrator/shared/redact.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";
import { MAX_PLAN_BYTES, PLAN_PATH, type PlanReading, readPlan } from "../stager/plan.ts";
import type { Check, CheckContext } from "./checks.ts";
import { type Finding, fail, ok, warn } from "./finding.ts";

const MAX_BRANCHES_SHOWN = 5;
const MAX_FAULTS_SHOWN = 3;

const redact = createTextRedactor([]);

/** Whether each repository answers and has its base branch, and whether that holds a staging plan that can be used. */
export const checkRepos: Check = async (context) => {
  const repos = Object.entries(context.config.repos);
  return (await Promise.all(repos.map(([name, repo]) => checkRepo(context, name, repo)))).flat();
};

const checkRepo = async (context: CheckContext, name: string, repo: RepoConfig): Promise<Finding[]> => {
  const check = `repo ${name}`;
  const url = redact(repo.url);
  let heads: ReadonlyMap<string, string>;
  try {
    heads = await listHeads(context, repo.url);
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    return [fail(check, error.message, `is the URL right, and may this user read it? Try: git ls-remote ${url}`)];
  }
  const tip = heads.get(repo.baseBranch);
  if (tip === undefined) {
    const todo = `push that branch, or correct repos.${name}.base_branch`;
    return [fail(check, `${url} has no branch ${repo.baseBranch}, but ${showBranches([...heads.keys()])}`, todo)];
  }
  const found = ok(check, `${url} answers, ${repo.baseBranch} is at ${tip.slice(0, 12)}`);
  return isStaged(context.config) ? [found, await checkPlan(context, name, repo, tip)] : [found];
};

/** The branches of a remote and their commits. @throws {ToolError} */
const listHeads = async (
  { git, signal, timeoutsMs }: CheckContext,
  url: string,
): Promise<ReadonlyMap<string, string>> => {
  const args = ["ls-remote", "--heads", "--", url];
  const options: GitOptions = { network: true, timeoutMs: timeoutsMs.remote, signal, errorCode: "git_ls_remote" };
  const result = await git.run(args, options);
  if (result.code !== 0) throw gitFailure(args, options, result);
  const lines = result.stdout
    .toString("utf8")
    .split("\n")
    .filter((line) => line !== "");
  return new Map(
    lines.map((line) => {
      const [commit = "", ref = ""] = line.split("\t");
      return [ref.replace(/^refs\/heads\//, ""), commit] as const;
    }),
  );
};

const showBranches = (names: readonly string[]): string => {
  if (names.length === 0) return "no branch at all";
  const shown = names.slice(0, MAX_BRANCHES_SHOWN).join(", ");
  return names.length > MAX_BRANCHES_SHOWN ? `${shown} and ${names.length - MAX_BRANCHES_SHOWN} more` : shown;
};

/** True where staging is worked by the staging runner, which needs a plan. */
const isStaged = (config: Config): boolean =>
  config.pipeline.stages.some(({ name, agent }) => isStagingRunners({ stage: name, agent }, config));

const checkPlan = async (context: CheckContext, name: string, repo: RepoConfig, tip: string): Promise<Finding> => {
  try {
    return judgePlan(name, repo, await readPlanFile(context, name, repo, tip));
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    return warn(`plan ${name}`, `not looked at: ${error.message}`, "look at it when the repository has been fetched");
  }
};

/** From the mirror where it has the commit, else from a clone of that one commit that is thrown away. */
const readPlanFile = async (
  { config, git, signal, timeoutsMs }: CheckContext,
  name: string,
  repo: RepoConfig,
  tip: string,
): Promise<CommittedFile> => {
  const read = (gitDir: string): Promise<CommittedFile> =>
    readCommittedFile(git, gitDir, tip, PLAN_PATH, { maxBytes: MAX_PLAN_BYTES, signal });
  const mirror = join(config.reposDir, `${name}.git`);
  // What is wrong with a mirror that cannot be looked at is told when it is used: the remote has the commit, too.
  if (await isThere(join(mirror, "objects")).catch(() => false)) {
    const has = await git.run(["cat-file", "-e", `${tip}^{commit}`], { gitDir: mirror, signal });
    if (has.code === 0) return read(mirror);
  }
  return inTempFolder(tmpdir(), async (gitDir) => {
    await git.ok(["init", "--quiet", "--bare", "--template=", gitDir], { gitDir, cwd: "/", signal });
    const args = ["fetch", "--quiet", "--depth=1", "--no-tags", "--no-write-fetch-head", "--", repo.url];
    const options = { gitDir, signal, network: true, timeoutMs: timeoutsMs.fetch, errorCode: "git_fetch" };
    await git.ok([...args, `refs/heads/${repo.baseBranch}`], options);
    return read(gitDir);
  });
};

/** What the plan on the base branch means for staging runs. */
export const judgePlan = (
  name: string,
  { baseBranch, plan }: Pick<RepoConfig, "baseBranch" | "plan">,
  file: CommittedFile,
): Finding => {
  const check = `plan ${name}`;
  const where = `${PLAN_PATH} on ${baseBranch}`;
  if (file.kind === "missing") {
    return plan === "base"
      ? fail(
          check,
          `there is no ${where}`,
          "commit one: every staging run of this repository takes its plan from there",
        )
      : warn(check, `there is no ${where}`, "commit one, or every branch must bring its own");
  }
  const reading: PlanReading = readPlan(file);
  if (reading.kind === "plan") {
    const { steps, teardown } = reading.plan;
    return ok(check, `${where}: steps ${steps.length}, teardown ${teardown.length}`);
  }
  const shown = reading.faults.slice(0, MAX_FAULTS_SHOWN).join("; ");
  const more = reading.faults.length > MAX_FAULTS_SHOWN ? `; and ${reading.faults.length - MAX_FAULTS_SHOWN} more` : "";
  return fail(check, `${where} cannot be used: ${shown}${more}`, "correct it: with it staging ends FAILED");
};
