import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { git } from "../helpers/git.ts";
import { makeSite, postTask, type Site, startTestScheduler, taskWhen } from "../helpers/scheduler.ts";
import { writeArtifact } from "../helpers/write_artifact.ts";

/** A program that leaves a trace when somebody runs it. */
const makeCanary = async (site: Site): Promise<{ program: string; traces: () => Promise<string[]> }> => {
  const folder = join(site.folder, "traces");
  const program = join(site.folder, "canary");
  await mkdir(folder);
  await writeFile(program, `#!/bin/sh\necho "$0 $*" >>${folder}/$$\ncat 2>/dev/null\nexit 0\n`, { mode: 0o755 });
  return { program, traces: () => readdir(folder) };
};

const everyTrap = (program: string): string => `
for key in core.fsmonitor core.sshCommand core.hooksPath core.editor core.pager credential.helper diff.external \\
  uploadpack.packObjectsHook gpg.program filter.trap.clean filter.trap.smudge filter.trap.process; do
  git config "$key" ${program}
done
git config core.hooksPath .git/hooks
for hook in pre-commit post-commit post-checkout pre-push post-index-change reference-transaction fsmonitor-watchman; do
  printf '#!/bin/sh\\n${program} hook\\n' >.git/hooks/$hook 2>/dev/null || { mkdir -p .git/hooks; printf '#!/bin/sh\\n${program} hook\\n' >.git/hooks/$hook; }
  chmod +x .git/hooks/$hook
done
echo '* filter=trap' >.gitattributes
`;

test("what an agent plants in its git configuration, hooks and attributes is run by nobody, and its honest work is taken", async () => {
  const site = await makeSite();
  const { program, traces } = await makeCanary(site);
  await site.hook("development", `${everyTrap(program)}echo honest >honest.txt\n`);
  const scheduler = await startTestScheduler(site);
  await postTask(scheduler, { workItemId: "ORCH-1" });
  const { task } = await taskWhen(scheduler, "ORCH-1", ({ task }) => task.status !== "active");
  expect(task.status).toBe("done");
  expect(await git(site.remote, "show", "refs/heads/work/ORCH-1:honest.txt")).toBe("honest");
  expect(await traces()).toEqual([]);
});

test("a .git that has become a file, with the real one trapped elsewhere: only files are taken, nothing is run", async () => {
  const site = await makeSite();
  const { program, traces } = await makeCanary(site);
  const elsewhere = join(site.folder, "elsewhere");
  await site.hook(
    "development",
    `${everyTrap(program)}mv .git ${elsewhere}; echo "gitdir: ${elsewhere}" >.git; echo honest >honest.txt\n`,
  );
  const scheduler = await startTestScheduler(site);
  await postTask(scheduler, { workItemId: "ORCH-1" });
  const { task } = await taskWhen(scheduler, "ORCH-1", ({ task }) => task.status !== "active");
  expect(task.status).toBe("done");
  expect(await git(site.remote, "show", "refs/heads/work/ORCH-1:honest.txt")).toBe("honest");
  expect(await traces()).toEqual([]);
});

test("docs/work-items as a link to somewhere else: nothing is read or written there, and the attempt fails", async () => {
  const site = await makeSite();
  const outside = join(site.folder, "outside");
  await mkdir(join(outside, "ORCH-1"), { recursive: true });
  const artifact = join(outside, "ORCH-1", "06-architecture.md");
  await site.hook("architecture", `rm -rf docs/work-items; ln -s ${outside} docs/work-items\n`);
  const stages = site.config.pipeline.stages.map((stage) => ({ ...stage, maxAttempts: 1 }));
  const scheduler = await startTestScheduler(site, { config: { pipeline: { ...site.config.pipeline, stages } } });
  await postTask(scheduler, { workItemId: "ORCH-1" });
  const { task, runs } = await taskWhen(scheduler, "ORCH-1", ({ task }) => task.status !== "active");
  expect(task).toMatchObject({ status: "blocked", stage: "architecture" });
  expect(runs.at(-1)).toMatchObject({ outcome: "failed" });
  // The agent itself wrote through its link; the services left that alone.
  expect(await readFile(artifact, "utf8")).toContain("stage: architecture");
  expect(await readdir(join(outside, "ORCH-1"))).toEqual(["06-architecture.md"]);
  const tree = await git(site.remote, "ls-tree", "-r", "--name-only", "refs/heads/work/ORCH-1");
  expect(tree).not.toContain("06-architecture.md");
});

test("a stale verdict never passes for a new one: a review that writes nothing fails, although an earlier round approved", async () => {
  const site = await makeSite();
  await site.hook(
    "testing",
    `[ -e "$AGENT_HOOKS/tested" ] && exit 0
touch "$AGENT_HOOKS/tested"
${writeArtifact("test_status: FAILED")}
exit 99
`,
  );
  await site.hook("review", `[ -e "$AGENT_HOOKS/tested" ] && exit 99; exit 0\n`);
  const stages = site.config.pipeline.stages.map((stage) => ({ ...stage, maxAttempts: 1 }));
  const scheduler = await startTestScheduler(site, { config: { pipeline: { ...site.config.pipeline, stages } } });
  await postTask(scheduler, { workItemId: "ORCH-1" });
  const { task, runs } = await taskWhen(scheduler, "ORCH-1", ({ task }) => task.status !== "active");
  expect(task).toMatchObject({ status: "blocked", stage: "review", returns: 1 });
  expect(runs.filter((run) => run.stage === "review").map((run) => run.outcome)).toEqual(["succeeded", "failed"]);
});

test.each([
  ["git checkout -q -- .", "keeps its own", "gate_failed", "review_status is CHANGES_REQUESTED"],
  ["git reset -q --hard", "keeps its own", "gate_failed", "review_status is CHANGES_REQUESTED"],
  ["git stash -q --include-untracked", "has none", null, "12-review.md"],
])(
  "a stale verdict never passes for a new one: a review that ends with %s %s",
  async (tidy, _, outcomeClass, reason) => {
    const site = await makeSite();
    await site.hook(
      "testing",
      `[ -e "$AGENT_HOOKS/tested" ] && exit 0\ntouch "$AGENT_HOOKS/tested"\n${writeArtifact("test_status: FAILED")}\nexit 99\n`,
    );
    const verdict = writeArtifact("review_status: CHANGES_REQUESTED");
    await site.hook("review", `[ -e "$AGENT_HOOKS/tested" ] || exit 0\n${verdict}\n${tidy}; exit 99\n`);
    const { pipeline } = site.config;
    const stages = pipeline.stages.map((stage) => ({ ...stage, maxAttempts: 1 }));
    const scheduler = await startTestScheduler(site, { config: { pipeline: { stages, maxReturns: 1 } } });
    await postTask(scheduler, { workItemId: "ORCH-1" });
    const { task, runs } = await taskWhen(scheduler, "ORCH-1", ({ task }) => task.status !== "active");
    expect(task).toMatchObject({ status: "blocked", stage: "review", blockedReason: expect.stringContaining(reason) });
    const reviews = runs.filter((run) => run.stage === "review").map((run) => [run.outcome, run.outcomeClass]);
    expect(reviews).toEqual([
      ["succeeded", null],
      ["failed", outcomeClass],
    ]);
  },
);

test("a docs stage that changes code is a failed attempt: nothing unreviewed slips in after the review", async () => {
  const site = await makeSite();
  await site.hook("testing", "echo sneaked >>code.txt\n");
  const stages = site.config.pipeline.stages.map((stage) => ({ ...stage, maxAttempts: 1 }));
  const scheduler = await startTestScheduler(site, { config: { pipeline: { ...site.config.pipeline, stages } } });
  await postTask(scheduler, { workItemId: "ORCH-1" });
  const { task } = await taskWhen(scheduler, "ORCH-1", ({ task }) => task.status !== "active");
  expect(task).toMatchObject({
    status: "blocked",
    stage: "testing",
    blockedReason: expect.stringContaining("code.txt"),
  });
  expect(await git(site.remote, "show", "refs/heads/work/ORCH-1:code.txt")).not.toContain("sneaked");
});
