import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { writeConfigFile } from "../helpers/config_file.ts";
import { makeRemote } from "../helpers/remote_repository.ts";
import { makeSite, type Site } from "../helpers/scheduler.ts";
import { startSchedulerProcess } from "../helpers/scheduler_process.ts";
import { startService } from "../helpers/service_process.ts";
import { tempFolder } from "../helpers/temp_folder.ts";
import { repoAt } from "./context.ts";

const PLAN = "version: 1\nsteps:\n  - { name: a, run: 'true' }\n";

const doctor = (env: Record<string, string>, ...args: string[]) =>
  startService("services/doctor/main.ts", { env, args }).ended;

const environmentOf = async (site: Site): Promise<Record<string, string>> => ({
  HOME: site.folder,
  ORCH_DATA_DIR: site.config.dataDir,
  ORCH_CONFIG: await writeConfigFile(site),
  ORCH_PORT: "0",
  ORCH_STAGER_PORT: "1",
});

/** The port that a service's log names when it is ready. */
const portOf = (service: ReturnType<typeof startService>): Promise<number> =>
  new Promise((resolve) => {
    let text = "";
    service.child.stdout!.on("data", (chunk: string) => {
      text += chunk;
      const [, port] = /"port":(\d+).*"msg":"ready"/.exec(text) ?? [];
      if (port !== undefined) resolve(Number(port));
    });
  });

test("where everything is well, every line is ok, the exit code 0, and the services notice nothing", async () => {
  const folder = await tempFolder();
  const site = await makeSite({
    repos: { shop: repoAt(await makeRemote(folder, { ".orchestrator/staging.yaml": PLAN })) },
  });
  const token = "the-token-of-the-stager";
  const scheduler = await startSchedulerProcess(site, { ORCH_STAGER_TOKEN: token });
  const url = await scheduler.ready;
  const env = { ...(await environmentOf(site)), ORCH_PORT: new URL(url).port, ORCH_STAGER_TOKEN: token };
  const stager = startService("services/stager/main.ts", { env: { ...env, ORCH_STAGER_PORT: "0" } });
  const stagerUrl = `http://127.0.0.1:${await portOf(stager)}`;
  const before = await readdir(site.config.dataDir);

  const { code, stdout, stderr } = await doctor({ ...env, ORCH_STAGER_URL: stagerUrl });
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  const lines = stdout.trimEnd().split("\n");
  for (const line of lines.slice(0, -1)) expect(line).toMatch(/^(ok {4}|warn {2}disk)/);
  const line = (check: string) => lines.find((each) => each.slice(6).startsWith(check));
  expect(line("scheduler")).toContain(`runs (pid ${scheduler.pid} on `);
  expect(line("scheduler")).toContain(`and is ready on 127.0.0.1:${env.ORCH_PORT}`);
  expect(line("stager")).toContain(`${stagerUrl} is ready and accepts the token`);
  expect(line("plan shop")).toContain("steps 1");
  expect(line("database")).toContain("schema version");
  expect(lines.at(-1)).toMatch(/^\d+ ok, \d+ warn, 0 fail$/);
  expect(stdout).not.toContain(token);

  expect(await readdir(site.config.dataDir)).toEqual(before);
  const queue = (await (await fetch(`${url}/queue`)).json()) as { scheduler: { epoch: number } };
  expect(queue.scheduler.epoch).toBe(1);
  expect((await fetch(`${url}/readyz`)).status).toBe(200);
});

test("before anything was ever set up it says what to do, exits with 1, and makes nothing", async () => {
  const folder = await tempFolder();
  const env = { HOME: folder, ORCH_DATA_DIR: join(folder, "data"), ORCH_PORT: "0", ORCH_STAGER_PORT: "1" };
  const { code, stdout, stderr } = await doctor(env, "--json");
  expect({ code, stderr }).toEqual({ code: 1, stderr: "" });
  const answer = JSON.parse(stdout) as { ok: boolean; findings: { check: string; level: string; todo: string }[] };
  expect(answer.ok).toBe(false);
  for (const finding of answer.findings) {
    expect(Object.keys(finding)).toEqual(["check", "level", "found", "todo"]);
  }
  const failed = answer.findings.filter(({ level }) => level === "fail");
  expect(failed.map(({ check }) => check)).toEqual([
    ...["analyst", "architect", "developer", "reviewer", "tester", "deployer"].map((name) => `agent ${name}`),
  ]);
  for (const { todo } of failed) expect(todo).toMatch(/\S/);
  expect((await readdir(folder)).filter((name) => !name.startsWith("."))).toEqual([]);
});

describe("a configuration with which nothing would start", () => {
  const faults = async (...args: string[]) => {
    const folder = await tempFolder();
    await writeFile(join(folder, "o.yaml"), "repos:\n  shop: { url: x, bogus: 1 }\nbogus: 1\n");
    const env = {
      HOME: folder,
      ORCH_CONFIG: join(folder, "o.yaml"),
      ORCH_PORT: "seventy",
      ORCH_API_TOKEN: "the token",
    };
    return { folder, ...(await doctor(env, ...args)) };
  };

  test("is shown fault by fault, and the exit code is 78", async () => {
    const { folder, code, stdout, stderr } = await faults();
    expect({ code, stderr }).toEqual({ code: 78, stderr: "" });
    expect(stdout.split("\n")).toEqual([
      expect.stringMatching(
        /^fail {2}config {16}ORCH_PORT: found "seventy", accepted: a whole number from 0 to 65535$/,
      ),
      expect.stringMatching(/^fail {2}config {16}ORCH_API_TOKEN: found a text \(not shown here\), accepted: /),
      expect.stringContaining(`${folder}/o.yaml:2: repos.shop.bogus: unknown key`),
      expect.stringContaining(`${folder}/o.yaml:3: bogus: unknown key`),
      "0 ok, 0 warn, 4 fail",
      "",
    ]);
  });

  test("the same for programs", async () => {
    const { code, stdout } = await faults("--json");
    expect(code).toBe(78);
    const { ok, findings } = JSON.parse(stdout) as { ok: boolean; findings: { check: string; level: string }[] };
    expect(ok).toBe(false);
    expect(findings.map(({ check, level }) => `${level} ${check}`)).toEqual(Array(4).fill("fail config"));
  });
});

test("an argument that it does not know is no reason to look at anything", async () => {
  const { code, stdout, stderr } = await doctor({}, "--jsno");
  expect({ code, stdout, stderr }).toEqual({ code: 64, stdout: "", stderr: "usage: npm run doctor [-- --json]\n" });
});

test("what may not be written is said of the user that it runs as", async () => {
  const folder = await tempFolder();
  const locked = join(folder, "locked");
  await mkdir(locked, { mode: 0o555 });
  const env = { HOME: folder, ORCH_DATA_DIR: join(folder, "data"), ORCH_REPOS_DIR: locked, ORCH_STAGER_PORT: "1" };
  const { stdout } = await startService("services/doctor/main.ts", { env, heedPermissions: true }).ended;
  expect(stdout).toMatch(
    new RegExp(
      `^fail  ORCH_REPOS_DIR +${locked} cannot be written by user ${process.getuid!()} \\(EACCES\\) -> give it to that user, or name another path$`,
      "m",
    ),
  );
});
