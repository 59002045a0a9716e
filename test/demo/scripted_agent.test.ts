import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { baseEnvironment } from "./environment.ts";
import { ownRuntime, runtimeCommands } from "./runtimes.ts";
import { type Git, makeGit, makeSampleRepository } from "./sample_repository.ts";

const commands = runtimeCommands(ownRuntime());
const agent = fileURLToPath(new URL("scripted_agent.js", import.meta.url));
const folder = "docs/work-items/ORCH-1";
const artifacts: Record<string, string> = {
  analysis: "01-requirements.md",
  architecture: "06-architecture.md",
  development: "11-development-log.md",
  review: "12-review.md",
  testing: "13-test-report.md",
  deploy: "16-deploy-log.md",
};

let directory: string;
let workspace: string;
let env: Record<string, string>;
let git: Git;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "scripted-agent-"));
  env = baseEnvironment({ directory, binDirectory: commands.binDirectory });
  const sample = await makeSampleRepository({ directory, command: commands.inProject, port: 1, env });
  workspace = join(directory, "workspace");
  await makeGit(env, directory)("clone", "--quiet", sample.remote, workspace);
  git = makeGit(env, workspace);
});
afterEach(() => rm(directory, { recursive: true }));

/** Lets the agent work a stage, commits what it left, and gives its exit code and its artifact. */
const work = async (stage: string, ...args: string[]) => {
  const path = `${folder}/${artifacts[stage]}`;
  const [program, ...rest] = commands.javascript;
  const child = spawn(program, [...rest, agent, ...args], {
    cwd: workspace,
    stdio: ["ignore", "ignore", "inherit"],
    env: {
      ...env,
      ORCH_STAGE: stage,
      ORCH_AGENT: "someone",
      ORCH_WORK_ITEM_ID: "ORCH-1",
      ORCH_BRANCH: "work/ORCH-1",
      ORCH_BASE_BRANCH: "main",
      ORCH_ARTIFACT: path,
    },
  });
  const code = await new Promise((resolve) => child.once("close", resolve));
  await git("add", ".");
  await git("commit", "--quiet", "--allow-empty", "-m", stage);
  return { code, artifact: await readFile(join(workspace, path), "utf8") };
};

test("every stage ends with 0 and writes its artifact with all the common keys", async () => {
  for (const stage of Object.keys(artifacts)) {
    const { code, artifact } = await work(stage);
    expect(code, stage).toBe(0);
    const frontmatter = artifact.split("---\n")[1];
    expect(frontmatter).toMatch(
      RegExp(
        `^work_item: ORCH-1\nstage: ${stage}\nauthor_agent: someone\nstatus: completed\n` +
          "created_at: \\d{4}-\\d\\d-\\d\\d\nmodel_used: none\n((review|test|deploy)_status: (APPROVED|PASSED|SUCCESS)\n)?$",
      ),
    );
  }
  expect(await git("diff", "--name-only", "origin/main", "--", ".", `:!${folder}`)).toBe("server.js\ntest.js\n");
});

test("the tester reports what the project's tests say", async () => {
  await work("development");
  expect((await work("testing")).artifact).toContain("test_status: PASSED");
  await writeFile(join(workspace, "server.js"), 'throw new Error("broken");\n');
  expect((await work("testing")).artifact).toContain("test_status: FAILED");
});

test("the reviewer asks for what is missing in the diff", async () => {
  expect((await work("review")).artifact).toContain("review_status: CHANGES_REQUESTED");
  await work("development");
  expect((await work("review")).artifact).toContain("review_status: APPROVED");
});

test("a slip passes the tests, and is mended once staging has failed", async () => {
  const server = () => readFile(join(workspace, "server.js"), "utf8");
  await work("development", "--slip");
  expect(await server()).not.toContain("({ commit })],");
  expect((await work("testing")).artifact).toContain("test_status: PASSED");
  await writeFile(join(workspace, folder, "15-staging-log.md"), "---\nstaging_status: FAILED\n---\n");
  await work("development", "--slip");
  expect(await server()).toContain("({ commit })],");
  expect(await server()).toContain('"/greet"');
});
