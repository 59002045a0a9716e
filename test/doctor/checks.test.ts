import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { checkDatabase } from "../../services/doctor/check_database.ts";
import { checkFolders } from "../../services/doctor/check_folders.ts";
import { checkGitProgram } from "../../services/doctor/check_git_program.ts";
import { checkNotify } from "../../services/doctor/check_notify.ts";
import { checkScheduler } from "../../services/doctor/check_scheduler.ts";
import { startChecks } from "../../services/doctor/checks.ts";
import { startTestScheduler } from "../helpers/scheduler.ts";
import { tempFolder } from "../helpers/temp_folder.ts";
import { makeContext, repoAt, shown } from "./context.ts";
import { listen } from "./servers.ts";

describe("folders", () => {
  test("those that are there can be written, those that are not can be made, and none is made", async () => {
    const { site, context } = await makeContext({ stagingRunnerEnabled: true });
    const { dataDir, reposDir, scratchDir } = site.config;
    await mkdir(reposDir, { recursive: true });
    const lines = shown(await checkFolders(context));
    expect(lines).toContain(`ok ORCH_DATA_DIR ${dataDir} can be written`);
    expect(lines).toContain(`ok ORCH_REPOS_DIR ${reposDir} can be written`);
    expect(lines).toContain(`ok ORCH_SCRATCH_DIR ${scratchDir} is not there yet and can be made`);
    expect(lines.filter((line) => !line.startsWith("ok "))).toEqual([]);
    expect(await readdir(dataDir)).toEqual(["repos"]);
    expect(await readdir(reposDir)).toEqual([]);
  });

  test("the scratch directory of a stager elsewhere is none of this machine's", async () => {
    const { context } = await makeContext({ stagingRunnerEnabled: true, stagerUrl: "http://stager.example:8081" });
    expect(shown(await checkFolders(context)).join("\n")).not.toContain("ORCH_SCRATCH_DIR");
  });

  test("a file in the way", async () => {
    const { site, context } = await makeContext();
    await writeFile(site.config.dataDir, "");
    expect(shown(await checkFolders(context))).toContain(
      `fail ORCH_REPOS_DIR ${site.config.dataDir} is not a directory -> move away what stands there, or name another path`,
    );
  });
});

describe("scheduler and database", () => {
  test("none there, then one that works; it notices nothing", async () => {
    const { site, context } = await makeContext();
    expect(shown([...(await checkScheduler(context)), ...(await checkDatabase(context))])).toEqual([
      "ok scheduler none runs; its port is chosen at the start",
      `ok database ${site.config.dataDir}/orchestrator.db is not there yet: it is made at the scheduler's first start`,
    ]);
    expect(await readdir(site.folder)).not.toContain("data");
    const scheduler = await startTestScheduler(site);
    await scheduler.stop();
    expect(shown([...(await checkScheduler(context)), ...(await checkDatabase(context))])).toEqual([
      "ok scheduler none runs; its port is chosen at the start",
      expect.stringMatching(/^ok database schema version 1 \(.*orchestrator\.db, \d+\.\d MiB\)$/),
    ]);
  });

  test("a file that is no database, and a lock file that is none", async () => {
    const { site, context } = await makeContext();
    const { dataDir } = site.config;
    await mkdir(dataDir);
    await writeFile(join(dataDir, "orchestrator.db"), "some text\n".repeat(1000));
    await writeFile(join(dataDir, "scheduler.lock.db"), "some text\n".repeat(1000));
    expect(shown([...(await checkScheduler(context)), ...(await checkDatabase(context))])).toEqual([
      `fail scheduler the lock cannot be read: ${dataDir}/scheduler.lock.db is no database -> ` +
        "move it away, or remove it while no scheduler runs: it holds nothing but the lock",
      `fail database ${dataDir}/orchestrator.db is no database -> move it away, or name another in ORCH_DB_URL`,
    ]);
  });

  test("a server that does not answer", async () => {
    const { context } = await makeContext({ dbUrl: "http://127.0.0.1:1", dbAuthToken: "the-token-of-the-database" });
    for (const line of shown([...(await checkScheduler(context)), ...(await checkDatabase(context))])) {
      expect(line).toMatch(
        /^fail (scheduler the lock cannot be read: |database )the database http:\/\/127\.0\.0\.1:1 cannot be used \(.+\) -> is the server up/,
      );
    }
  });
});

test("git: its version, one that is too old to merge, one that is too old at all, none", async () => {
  const folder = await tempFolder();
  const lines = async (version: string | null, merge: "none" | "merge" = "none") => {
    if (version !== null) {
      await writeFile(join(folder, "git"), `#!/bin/sh\necho git version ${version}\n`, { mode: 0o755 });
    }
    const { context } = await makeContext({
      parentEnv: { PATH: version === null ? "/nowhere" : folder },
      repos: { shop: repoAt("/x", { merge }) },
    });
    return shown(await checkGitProgram(context));
  };
  expect(await lines("2.39.5")).toEqual(["ok git version 2.39.5"]);
  expect(await lines("2.39.5", "merge")).toEqual(["ok git version 2.39.5"]);
  expect(await lines("2.34.1", "merge")).toEqual([
    "fail git version 2.34.1, but repos.shop.merge needs 2.38 or newer -> install a newer git",
  ]);
  expect(await lines("2.34.1")).toEqual([
    "warn git version 2.34.1 -> install 2.36 or newer: it can see that commits are on the disk",
  ]);
  expect(await lines("2.20.1")).toEqual(["fail git git is version 2.20.1 -> install git 2.32 or newer"]);
  expect(await lines(null)).toEqual([
    expect.stringMatching(/^fail git git cannot be run \(.+\) -> install git 2\.32 or newer$/),
  ]);
});

describe("notify", () => {
  const on = ["blocked", "done"];
  const check = async (target: NonNullable<Parameters<typeof checkNotify>[0]["config"]["notify"]>["target"]) => {
    const { context } = await makeContext({ notify: { target, on } });
    return shown(await checkNotify(context));
  };

  test("nobody, a command, a command that is missing", async () => {
    const { context } = await makeContext();
    expect(shown(await checkNotify(context))).toEqual(["ok notify nobody is notified (notify is not set)"]);
    expect(await check({ kind: "command", command: ["/bin/sh"] })).toEqual([
      "ok notify /bin/sh is run on blocked, done",
    ]);
    expect(await check({ kind: "command", command: ["/no/such/program"] })).toEqual([
      expect.stringMatching(/^fail notify the command '\/no\/such\/program' was not found at /),
    ]);
  });

  test("a URL is not called, and its path is not shown", async () => {
    let calls = 0;
    const url = await listen(() => {
      calls += 1;
      return [200, ""];
    });
    expect(await check({ kind: "url", url: `${url}/T0/the-secret-path`, secret: null })).toEqual([
      `ok notify ${url} is told of blocked, done (not tried)`,
    ]);
    expect(calls).toBe(0);
    expect(await check({ kind: "url", url: "http://no-such-host.invalid/the-secret-path", secret: null })).toEqual([
      expect.stringMatching(
        /^warn notify the name no-such-host\.invalid cannot be resolved \(.+\) -> correct notify\.url/,
      ),
    ]);
  });
});

test("a check that breaks is one line of its own, and the others go on", async () => {
  const { context } = await makeContext();
  const broken = { ...context.git, run: () => Promise.reject(new RangeError("out of range")) };
  const findings = (await Promise.all(startChecks({ ...context, git: broken }))).flat();
  const lines = shown(findings);
  expect(lines.filter((line) => line.includes("RangeError"))).toEqual([
    "fail repos this could not be looked at: RangeError: out of range -> see what the message says, or look at it by hand",
  ]);
  expect(lines.some((line) => line.startsWith("ok ORCH_DATA_DIR "))).toBe(true);
});
