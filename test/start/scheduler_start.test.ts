import { chmod, copyFile, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createClient } from "@libsql/client";
import { describe, expect, test } from "vitest";
import { busyPort } from "../helpers/busy_port.ts";
import { startService } from "../helpers/service_process.ts";
import { openTestStorage } from "../helpers/storage.ts";
import { makePlace, type Place, type Start, startIn, whyFailed } from "./starting.ts";

const UNUSABLE = 73;

/** Without the powers of root the tests run as some user: which, the message says. */
const user = process.getuid!();

interface Case {
  name: string;
  /** Spoils the place; answers with what the start is given. */
  spoil: (place: Place) => Promise<Start>;
  says: (place: Place) => string | RegExp;
}

const folderCases: Case[] = [
  {
    name: "a data directory that is a file",
    spoil: async ({ folder }) => {
      await writeFile(join(folder, "file"), "");
      return { env: { ORCH_DATA_DIR: join(folder, "file") } };
    },
    says: ({ folder }) =>
      `ORCH_DATA_DIR: ${folder}/file is not a directory: move away what stands there, or name another path`,
  },
  {
    name: "mirrors below a file",
    spoil: async ({ folder }) => {
      await writeFile(join(folder, "file"), "");
      return { env: { ORCH_REPOS_DIR: join(folder, "file", "repos") } };
    },
    says: ({ folder }) =>
      `ORCH_REPOS_DIR: ${folder}/file is not a directory: move away what stands there, or name another path`,
  },
  {
    name: "workspaces that may not be written",
    spoil: async ({ folder }) => {
      await mkdir(join(folder, "locked"), { mode: 0o555 });
      return { env: { ORCH_WORKSPACES_DIR: join(folder, "locked") }, heedPermissions: true };
    },
    says: ({ folder }) =>
      `ORCH_WORKSPACES_DIR: ${folder}/locked cannot be written by user ${user} (EACCES): give it to that user, or name another path`,
  },
  {
    name: "a data directory in a file system that takes no files",
    spoil: async () => ({ env: { ORCH_DATA_DIR: "/sys/orchestrator" } }),
    says: () => /^ORCH_DATA_DIR: \/sys\/orchestrator (cannot be written by user|is on a read-only file system)/,
  },
  {
    name: "a database in a directory that may not be made",
    spoil: async () => ({ env: { ORCH_DB_URL: "file:/proc/orchestrator/o.db" } }),
    says: () =>
      /^ORCH_DB_URL: \/proc\/orchestrator cannot be used \(ENOENT: .*\): make it by hand, or name another path$/,
  },
];

/** A database that another program has made. */
const makeForeign = async (path: string, ...statements: string[]): Promise<void> => {
  const client = createClient({ url: `file:${path}` });
  for (const sql of statements) await client.execute(sql);
  client.close();
};

/** A database as the scheduler makes it, in one file. */
const makeDatabase = async (path: string): Promise<void> => {
  const opened = await openTestStorage();
  await opened.storage.close();
  await makeForeign(opened.path, "PRAGMA wal_checkpoint(TRUNCATE)");
  await copyFile(opened.path, path);
};

const databaseCases: Case[] = [
  {
    name: "a file that is no database",
    spoil: async ({ database }) => {
      await writeFile(database, "some text\n".repeat(1000));
      return {};
    },
    says: ({ database }) => `${database} is no database: move it away, or name another in ORCH_DB_URL`,
  },
  {
    name: "a directory in the database's place",
    spoil: async ({ database }) => {
      await mkdir(database);
      return {};
    },
    says: ({ database }) => `${database} is a directory and no database: move it away, or name another in ORCH_DB_URL`,
  },
  {
    name: "a database of another program",
    spoil: async ({ database }) => {
      await makeForeign(database, "CREATE TABLE tasks (what TEXT)");
      return {};
    },
    says: ({ database }) =>
      `${database} is a database of another program (SQLITE_ERROR: table tasks already exists): move it away, or name another in ORCH_DB_URL`,
  },
  {
    name: "a damaged database",
    spoil: async ({ database }) => {
      await makeDatabase(database);
      const bytes = await readFile(database);
      bytes.fill(0xee, 100, 4000);
      await writeFile(database, bytes);
      return {};
    },
    says: ({ database }) =>
      `${database} is damaged (SQLITE_CORRUPT: database disk image is malformed): restore it from a backup, or name another in ORCH_DB_URL`,
  },
  {
    name: "a newer database",
    spoil: async ({ database }) => {
      await makeForeign(database, "PRAGMA user_version = 99");
      return {};
    },
    says: () =>
      /^the database has schema version 99, this program knows versions up to \d+; run the program that made it/,
  },
  {
    name: "a database that may only be read",
    spoil: async ({ database }) => {
      await makeDatabase(database);
      await chmod(database, 0o444);
      return { heedPermissions: true };
    },
    says: ({ database }) =>
      `${database} cannot be written by user ${user} (SQLITE_READONLY: attempt to write a readonly database): give it and its folder to that user, or name another in ORCH_DB_URL`,
  },
  {
    name: "a lock file that is no lock",
    spoil: async ({ data }) => {
      await writeFile(join(data, "scheduler.lock.db"), "some text\n".repeat(1000));
      return {};
    },
    says: ({ data }) =>
      `${data}/scheduler.lock.db is no database: move it away, or remove it while no scheduler runs: it holds nothing but the lock`,
  },
  {
    name: "a database server that cannot be reached",
    spoil: async () => ({ env: { ORCH_DB_URL: "http://127.0.0.1:9", ORCH_DB_AUTH_TOKEN: "secret-of-the-database" } }),
    says: () =>
      /^the database http:\/\/127\.0\.0\.1:9 cannot be used \(.+\): is the server up, and ORCH_DB_AUTH_TOKEN one that it accepts\?$/,
  },
];

const surroundingsCases: Case[] = [
  {
    name: "no git",
    spoil: async ({ folder }) => ({ env: { PATH: folder } }),
    says: () => /^git cannot be run \(git could not be started: not found in PATH .*\): install git 2\.32 or newer$/,
  },
  {
    name: "a git that is too old",
    spoil: async ({ folder }) => {
      await writeFile(join(folder, "git"), "#!/bin/sh\necho git version 2.20.1\n", { mode: 0o755 });
      return { env: { PATH: folder } };
    },
    says: () => "git is version 2.20.1: install git 2.32 or newer",
  },
  {
    name: "an address that this machine does not have",
    spoil: async () => ({
      env: { ORCH_HOST: "192.0.2.1", ORCH_API_TOKEN: "a-token-for-tests", ORCH_STAGER_TOKEN: "another-token" },
    }),
    says: () => "192.0.2.1:0: no such address on this machine",
  },
];

describe.each([
  ["folders", folderCases],
  ["the database", databaseCases],
  ["what is around", surroundingsCases],
])("a start ends with one line about %s", (_, cases) => {
  test.each(cases.map((each) => [each.name, each] as const))("%s", async (_name, { spoil, says }) => {
    const place = await makePlace();
    const why = whyFailed(await startIn("scheduler", place, await spoil(place)), UNUSABLE);
    const expected = says(place);
    if (typeof expected === "string") expect(why).toBe(expected);
    else expect(why).toMatch(expected);
  });
});

test("a newer database is not touched", async () => {
  const place = await makePlace();
  await makeForeign(place.database, "PRAGMA journal_mode = WAL", "PRAGMA user_version = 99");
  await makeForeign(place.database, "PRAGMA wal_checkpoint(TRUNCATE)");
  const before = await readFile(place.database);
  whyFailed(await startIn("scheduler", place, {}), UNUSABLE);
  expect((await readFile(place.database)).equals(before)).toBe(true);
});

describe("a port that is taken", () => {
  test("by another program ends the start before anything is made", async () => {
    const place = await makePlace();
    const port = await busyPort();
    const ending = await startIn("scheduler", place, { env: { ORCH_PORT: String(port) } });
    expect(whyFailed(ending, UNUSABLE)).toBe(`127.0.0.1:${port} is in use by another process: choose another port`);
    expect(await readdir(place.data)).toEqual([]);
  });

  test("by the scheduler of the same database is no matter of ports: there may be only one", async () => {
    const place = await makePlace();
    const env = { HOME: place.folder, ORCH_DATA_DIR: place.data, ORCH_PORT: "0", ORCH_STAGING_RUNNER_ENABLED: "false" };
    const first = startService("services/scheduler/main.ts", { env });
    const port = await new Promise<number>((resolve) => {
      let text = "";
      first.child.stdout!.on("data", (chunk: string) => {
        text += chunk;
        const [, found] = /"port":(\d+).*"msg":"ready"/.exec(text) ?? [];
        if (found !== undefined) resolve(Number(found));
      });
    });
    const second = await startIn("scheduler", place, { env: { ORCH_PORT: String(port) } });
    expect(whyFailed(second, 75)).toContain(`another scheduler works on this database: pid ${first.pid} on `);
  });
});
