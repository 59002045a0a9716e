import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { JOB_STATUSES, OUTCOMES, TASK_STATUSES, UNFINISHED_TASK_STATUSES } from "@orchestrator/shared/domain.ts";
import { SCHEMA_VERSION } from "@orchestrator/shared/storage/migrate.ts";
import { expect, test } from "vitest";
import { projectRoot } from "../../helpers/runtime.ts";
import { openTestStorage } from "../../helpers/storage.ts";

const FOLDER = `${projectRoot}shared/storage/migrations/`;

/** SHA-256 of the statements of each migration that was released. A line is added here for a new one, and none is changed. */
const RELEASED = {
  "0001_initial.ts": "d2aa2d165f24c17b2d144e022c23d1793fad4a82a43edfb8aff82a3ec9629acb",
};

test("a migration that was released has the statements that it was released with", async () => {
  const found: Record<string, string> = {};
  for (const name of (await readdir(FOLDER)).sort()) {
    const [statements, ...others] = Object.values((await import(`${FOLDER}${name}`)) as Record<string, unknown>);
    expect(others, name).toEqual([]);
    found[name] = createHash("sha256").update(JSON.stringify(statements)).digest("hex");
  }
  expect(found).toEqual(RELEASED);
  expect(SCHEMA_VERSION).toBe(Object.keys(RELEASED).length);
});

test("a migration is made from nothing that can change: it imports nothing", async () => {
  for (const name of Object.keys(RELEASED))
    expect(await readFile(`${FOLDER}${name}`, "utf8")).not.toMatch(/\bimport\b/);
});

test.each([
  ["tasks", "status", TASK_STATUSES],
  ["tasks_one_unfinished_per_branch", "status", UNFINISHED_TASK_STATUSES],
  ["jobs", "status", JOB_STATUSES],
  ["agent_runs", "outcome", OUTCOMES],
])(
  "the list of %s in a new database is the program's (where it is not, a migration is missing)",
  async (name, column, values) => {
    const { storage } = await openTestStorage();
    const [row] = await storage.query<{ sql: string }>("SELECT sql FROM sqlite_schema WHERE name = ?", [name]);
    const list = new RegExp(`\\b${column} IN \\(([^)]*)\\)`).exec(row?.sql ?? "")?.[1] ?? "";
    expect(list.split(", ")).toEqual(values.map((value) => `'${value}'`));
  },
);
