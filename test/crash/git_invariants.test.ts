import { mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { writeFrontmatter } from "@orchestrator/shared/frontmatter.ts";
import type { Run, Task, TaskEvent } from "@orchestrator/shared/schemas/rows.ts";
import { expect, onTestFinished, test } from "vitest";
import { git } from "../helpers/git.ts";
import type { Snapshot } from "./database.ts";
import { checkBranches, checkHistory } from "./git_invariants.ts";
import { type CrashSite, makeCrashSite } from "./site.ts";

const BRANCH = "work/CRASH-1";
const LOG = "docs/work-items/CRASH-1/15-staging-log.md";

/** A site without services, a clone of its repository, and what the database would say of what is committed there. */
class Story {
  readonly seen: Snapshot;
  readonly site: CrashSite;
  readonly #clone: string;

  private constructor(site: CrashSite) {
    this.site = site;
    this.#clone = join(site.folder, "clone");
    const task = {
      id: 1,
      workItemId: "CRASH-1",
      repo: "docs",
      branch: BRANCH,
      stage: "done",
      status: "done",
      head: null,
    };
    this.seen = {
      tasks: [task as unknown as Task],
      jobs: [],
      runs: [],
      events: [],
      pauses: [],
      epoch: 1,
      instanceId: "",
      damage: [],
    };
  }

  static async begin(): Promise<Story> {
    const site = await makeCrashSite();
    onTestFinished(() => rm(site.folder, { recursive: true, force: true }));
    for (const repo of ["shop", "tool"])
      await git(site.folder, "clone", "-q", "--bare", site.remote(repo), site.mirror(repo));
    const story = new Story(site);
    await git(site.folder, "clone", "-q", site.remote("docs"), story.#clone);
    await git(story.#clone, "checkout", "-q", "-b", BRANCH);
    return story;
  }

  /** A commit of the run on the branch; `settled` is the stage that the run's settle moves the task from. */
  async commit(
    runId: number,
    settled: string | null,
    files: Record<string, string>,
    author = "Orchestrator <orchestrator@localhost>",
  ): Promise<string> {
    for (const [path, text] of Object.entries(files)) {
      await mkdir(dirname(join(this.#clone, path)), { recursive: true });
      await writeFile(join(this.#clone, path), text);
    }
    await git(this.#clone, "add", "-A");
    const message = `CRASH-1: work\n\nOrchestrator-Run: ${runId}\n`;
    await git(this.#clone, "commit", "-q", "--allow-empty", `--author=${author}`, "-m", message);
    const sha = await git(this.#clone, "rev-parse", "HEAD");
    const run = {
      id: runId,
      taskId: 1,
      stage: settled ?? "review",
      outcome: settled === null ? "interrupted" : "succeeded",
    };
    this.seen.runs.push(run as unknown as Run);
    if (settled === null) return sha;
    const move = { taskId: 1, runId, kind: "advanced", detail: { from: settled, to: "next", head: sha } };
    this.seen.events.push(move as unknown as TaskEvent);
    Object.assign(this.seen.tasks[0]!, { head: sha });
    return sha;
  }

  /** The log of a staging run that says it has tested `commit`. */
  stagingLog(runId: number, commit: string): Record<string, string> {
    return { [LOG]: writeFrontmatter({ work_item: "CRASH-1", run_id: runId, commit }, "log\n") };
  }

  async publish(): Promise<void> {
    await git(this.#clone, "push", "-q", "-f", "origin", BRANCH);
    await git(this.site.folder, "clone", "-q", "--bare", this.site.remote("docs"), this.site.mirror("docs"));
  }
}

const check = async (story: Story): Promise<string> =>
  [...(await checkBranches(story.site, story.seen)), ...(await checkHistory(story.site, story.seen))].join("\n");

test("a branch that is the chain of what was settled is sound, with the agents' commits and the staging log", async () => {
  const story = await Story.begin();
  await story.commit(1, "development", { "a.txt": "1" });
  const tested = await story.commit(2, "review", {});
  await story.commit(3, "deploy-staging", story.stagingLog(3, tested));
  await story.publish();
  expect(await check(story)).toBe("");
});

test.each<[what: string, tell: (story: Story) => Promise<unknown>, said: RegExp]>([
  [
    "somebody else's commit at its tip",
    async (story) => {
      await story.commit(1, "review", {});
      await story.commit(99, null, {}, "Eve <eve@example.com>");
      story.seen.runs.pop();
    },
    /which is not what CRASH-1 has made/,
  ],
  [
    "a commit that was never settled",
    async (story) => {
      await story.commit(1, null, {});
      await story.commit(2, "review", {});
    },
    /of run 1 \(review\) is on the branch and was never settled/,
  ],
  [
    "commits in another order than their runs",
    async (story) => {
      await story.commit(2, "review", {});
      await story.commit(1, "testing", {});
    },
    /run 1 comes after run 2/,
  ],
  [
    "a settle that recorded a commit of another stage",
    async (story) => {
      await story.commit(1, "review", {});
      Object.assign(story.seen.runs[0]!, { stage: "testing" });
    },
    /recorded .* for review, which a run of testing has made/,
  ],
  [
    "a head that it does not stand at",
    async (story) => {
      const first = await story.commit(1, "review", {});
      await story.commit(2, "testing", {});
      Object.assign(story.seen.tasks[0]!, { head: first });
    },
    /head is .*, the remote branch stands at/,
  ],
  [
    "a settle whose commit is not on it",
    async (story) => {
      await story.commit(1, "review", {});
      Object.assign(story.seen.events[0]!.detail, { head: "f".repeat(40) });
    },
    /which run 1 recorded, is not on the branch/,
  ],
  [
    "a staging log of another commit",
    async (story) => {
      await story.commit(1, "testing", {});
      await story.commit(2, "deploy-staging", story.stagingLog(2, "f".repeat(40)));
    },
    /the staging log is of run 2 and commit fff/,
  ],
  [
    "a staging log of another run",
    async (story) => {
      const tested = await story.commit(1, "testing", {});
      await story.commit(2, "deploy-staging", story.stagingLog(1, tested));
    },
    /the staging log is of run 1/,
  ],
  [
    "a staging log that brings something else along",
    async (story) => {
      const tested = await story.commit(1, "testing", {});
      await story.commit(2, "deploy-staging", { ...story.stagingLog(2, tested), "b.txt": "2" });
    },
    /the staging log's commit changes b.txt/,
  ],
])("a branch with %s is seen", async (_, tell, said) => {
  const story = await Story.begin();
  await tell(story);
  await story.publish();
  expect(await check(story)).toMatch(said);
});
