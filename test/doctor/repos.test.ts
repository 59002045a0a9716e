import { mkdir, readdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { checkRepos } from "../../services/doctor/check_repos.ts";
import { TIMEOUTS_MS } from "../../services/doctor/checks.ts";
import { createMirrors } from "../../services/scheduler/git/mirror.ts";
import { git } from "../helpers/git.ts";
import { makeRemote } from "../helpers/remote_repository.ts";
import { tempFolder } from "../helpers/temp_folder.ts";
import { makeContext, repoAt, shown } from "./context.ts";
import { listenSilently } from "./servers.ts";

const PLAN = "version: 1\nsteps:\n  - { name: a, run: 'true' }\n";

describe("repositories", () => {
  test("one that answers, with a plan, before it was ever fetched; nothing is made", async () => {
    const folder = await tempFolder();
    const url = await makeRemote(folder, { ".orchestrator/staging.yaml": PLAN });
    const { site, context } = await makeContext({ stagingRunnerEnabled: true, repos: { shop: repoAt(url) } });
    const tip = await git(url, "rev-parse", "main");
    expect(shown(await checkRepos(context))).toEqual([
      `ok repo shop ${url} answers, main is at ${tip.slice(0, 12)}`,
      "ok plan shop .orchestrator/staging.yaml on main: steps 1, teardown 0",
    ]);
    expect(await readdir(site.folder)).not.toContain("data");
  });

  test("the plan is read from the mirror where that has the commit", async () => {
    const folder = await tempFolder();
    const url = await makeRemote(folder, { ".orchestrator/staging.yaml": PLAN });
    const { context } = await makeContext({ stagingRunnerEnabled: true, repos: { shop: repoAt(url) } });
    const { config } = context;
    await mkdir(config.reposDir, { recursive: true });
    await createMirrors({ git: context.git, reposDir: config.reposDir, repos: config.repos }).get("shop").fetch();
    const commands: string[] = [];
    const run: typeof context.git.run = (args, options) => {
      commands.push(args[0]!);
      return context.git.run(args, options);
    };
    const watched = { ...context, git: { ...context.git, run } };
    expect(shown(await checkRepos(watched)).at(-1)).toMatch(/^ok plan shop /);
    expect(commands).toContain("cat-file");
    expect(commands).not.toContain("fetch");
  });

  test("the plan is read from the remote where the mirror cannot be looked at", async () => {
    const url = await makeRemote(await tempFolder(), { ".orchestrator/staging.yaml": PLAN });
    const { context } = await makeContext({ stagingRunnerEnabled: true, repos: { shop: repoAt(url) } });
    const { reposDir } = context.config;
    await mkdir(reposDir, { recursive: true });
    await symlink("shop.git", join(reposDir, "shop.git"));
    expect(shown(await checkRepos(context)).at(-1)).toMatch(/^ok plan shop /);
  });

  test("without the staging runner no plan is asked for", async () => {
    const { context } = await makeContext({ stagingRunnerEnabled: false });
    expect(shown(await checkRepos(context))).toEqual([expect.stringMatching(/^ok repo shop /)]);
  });

  test("one that is not there, one that is empty, one without the base branch", async () => {
    const folder = await tempFolder();
    const url = await makeRemote(folder);
    for (const name of ["a", "b", "c", "d", "e", "f"]) await git(url, "branch", name, "main");
    await git(folder, "init", "-q", "--bare", "-b", "main", join(folder, "empty.git"));
    const { context } = await makeContext({
      repos: {
        gone: repoAt(join(folder, "gone.git")),
        empty: repoAt(join(folder, "empty.git")),
        shop: repoAt(url, { baseBranch: "trunk" }),
      },
    });
    expect(shown(await checkRepos(context))).toEqual([
      expect.stringMatching(
        new RegExp(
          `^fail repo gone git ls-remote failed with exit code 128: .*does not appear to be a git repository.* -> ` +
            `is the URL right, and may this user read it\\? Try: git ls-remote ${folder}/gone.git$`,
        ),
      ),
      `fail repo empty ${folder}/empty.git has no branch main, but no branch at all -> ` +
        "push that branch, or correct repos.empty.base_branch",
      `fail repo shop ${url} has no branch trunk, but a, b, c, d, e and 2 more -> ` +
        "push that branch, or correct repos.shop.base_branch",
    ]);
  });

  test("a remote that does not answer is waited for only so long, and a password is not shown", async () => {
    const server = await listenSilently();
    const url = `${server.replace("//", "//someone:pass-word-of-someone@")}/shop.git`;
    const { context } = await makeContext(
      { repos: { shop: repoAt(url) } },
      { timeoutsMs: { ...TIMEOUTS_MS, remote: 300 } },
    );
    const [line] = shown(await checkRepos(context));
    expect(line).toMatch(
      /^fail repo shop git ls-remote did not end within 0\.3 s -> .* Try: git ls-remote http:\/\/\[redacted\]@/,
    );
    expect(line).not.toContain("pass-word");
  });
});
