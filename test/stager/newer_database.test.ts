import { createClient } from "@libsql/client";
import { SCHEMA_VERSION } from "@orchestrator/shared/storage/migrate.ts";
import { expect, onTestFinished, test } from "vitest";
import { StagerDatabase } from "../../services/stager/database.ts";
import { openTestStorage } from "../helpers/storage.ts";

const setVersion = async (url: string, version: number): Promise<void> => {
  const client = createClient({ url });
  await client.execute(`PRAGMA user_version = ${version}`);
  client.close();
};

test("a database that a newer scheduler has taken over is not read, and one that is known again is", async () => {
  const { storage, url, instanceId } = await openTestStorage();
  await storage.close();
  await setVersion(url, SCHEMA_VERSION + 1);
  const database = new StagerDatabase(url, null);
  onTestFinished(() => database.close());
  const refused = `the database has schema version ${SCHEMA_VERSION + 1}, this program knows versions up to ${SCHEMA_VERSION}`;
  await expect(database.readInstanceId()).rejects.toThrow(refused);
  await expect(database.readJob({ job_id: 1, run_id: 1, task_id: 1 })).rejects.toThrow(refused);
  await setVersion(url, SCHEMA_VERSION);
  expect(await database.readInstanceId()).toBe(instanceId);
});
