import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadConfig } from "@orchestrator/shared/config/load_config.ts";
import { makeTokens } from "@orchestrator/shared/make_tokens.ts";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "tokens-"));
});
afterEach(() => rm(folder, { recursive: true }));

const secret = (name: string) => join(folder, "data/secrets", name);
const write = async (name: string, text: string) => {
  await mkdir(join(folder, "data/secrets"), { recursive: true });
  await writeFile(secret(name), text);
};
const load = (env: Record<string, string> = {}, service: "scheduler" | "stager" = "scheduler") => {
  const loaded = loadConfig(env, { cwd: folder, service });
  if (loaded.kind === "invalid") return loaded.faults;
  return [loaded.config.apiToken, loaded.config.stagerToken];
};
const make = (env: Record<string, string> = {}) => makeTokens({ ORCH_MAKE_TOKENS: "true", ...env }, folder);

describe("tokens in files", () => {
  test("are read from the data directory, without what an editor leaves at the end", async () => {
    expect(load()).toEqual([null, null]);
    await write("api.token", "one\r\n");
    await write("stager.token", "two");
    expect(load()).toEqual(["one", "two"]);
    expect(load({ ORCH_HOST: "0.0.0.0" })).toEqual(["one", "two"]);
    expect(load({ ORCH_DATA_DIR: "elsewhere" })).toEqual([null, null]);
  });

  test("stand back for the environment, in which nothing is not a token", async () => {
    await write("api.token", "one");
    await write("stager.token", "two");
    expect(load({ ORCH_API_TOKEN: "given", ORCH_STAGER_TOKEN: "" })).toEqual(["given", "two"]);
  });

  test("are read by a stager only as far as it needs them", async () => {
    await write("api.token", "not a token");
    await write("stager.token", "two");
    expect(load({ ORCH_STAGER_HOST: "0.0.0.0" }, "stager")).toEqual([null, "two"]);
  });

  test.each([
    ["", "nothing"],
    ["\n", "nothing"],
    ["two words", "a text (not shown here)"],
  ])("that hold %j end the start", async (text, found) => {
    await write("api.token", text);
    expect(load()).toEqual([
      `ORCH_API_TOKEN: found ${found} in ${secret("api.token")}, accepted: a token of printable ASCII characters without blanks (not shown here)`,
    ]);
  });

  test("that cannot be read end the start", async () => {
    await mkdir(secret("api.token"), { recursive: true });
    expect(load()).toEqual([
      `ORCH_API_TOKEN: found no access (EISDIR) in ${secret("api.token")}, accepted: a token of printable ASCII characters without blanks (not shown here)`,
    ]);
  });
});

describe("tokens that are made", () => {
  test("are two different ones, readable for this user alone, and stay what they are", async () => {
    expect(await make()).toEqual([secret("api.token"), secret("stager.token")]);
    const first = load();
    expect(new Set(first).size).toBe(2);
    for (const token of first) expect(token).toMatch(/^[\w-]{43}$/);
    for (const name of ["api.token", "stager.token"]) expect((await stat(secret(name))).mode & 0o777).toBe(0o600);
    expect((await stat(secret("."))).mode & 0o777).toBe(0o700);
    expect(await make()).toEqual([]);
    expect(load()).toEqual(first);
  });

  test("are only those that are missing", async () => {
    await write("stager.token", "two");
    expect(await make()).toEqual([secret("api.token")]);
    expect(await readFile(secret("stager.token"), "utf8")).toBe("two");
    expect(await make({ ORCH_API_TOKEN: "given" })).toEqual([]);
  });

  test("are made by nobody who has not asked for them", async () => {
    expect(await makeTokens({}, folder)).toEqual([]);
    expect(await makeTokens({ ORCH_MAKE_TOKENS: "false" }, folder)).toEqual([]);
    expect(await readdir(folder)).toEqual([]);
    expect(load({ ORCH_MAKE_TOKENS: "yes" })).toEqual(['ORCH_MAKE_TOKENS: found "yes", accepted: one of true, false']);
  });

  test("are the same for all who start at once", async () => {
    const made = (await Promise.all(Array.from({ length: 8 }, () => make()))).flat();
    expect(made.sort()).toEqual([secret("api.token"), secret("stager.token")]);
    expect((await readdir(secret("."))).sort()).toEqual(["api.token", "stager.token"]);
  });

  test("that cannot be written say which folder it is", async () => {
    await writeFile(join(folder, "data"), "");
    await expect(make()).rejects.toThrow(`ORCH_DATA_DIR: ${join(folder, "data")} is not a directory`);
  });

  test("are not taken for made where that cannot be found out", async () => {
    await mkdir(join(folder, "data"));
    await symlink("secrets", secret("."));
    await expect(make()).rejects.toThrow(`ORCH_DATA_DIR: ${join(folder, "data/secrets")} cannot be used (ELOOP: `);
  });
});
