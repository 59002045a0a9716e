import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { Connection, StorageBusyError } from "@orchestrator/shared/storage/connection.ts";
import { expect, onTestFinished, test } from "vitest";
import { insertTaskWithJob } from "../../helpers/insert.ts";
import { lockDatabase } from "../../helpers/lock_database.ts";
import { projectRoot, runtimeArgv } from "../../helpers/runtime.ts";
import { openTestStorage } from "../../helpers/storage.ts";

const readByAnotherProcess = async (path: string): Promise<string[]> => {
  const [command, ...args] = runtimeArgv("test/helpers/count_rows.ts");
  const { stdout } = await promisify(execFile)(command, [...args, path], { cwd: projectRoot });
  return JSON.parse(stdout) as string[];
};

test("every acknowledged write is in the file, although a foreign program held the lock longer than the driver waits", async () => {
  const { storage, path } = await openTestStorage();
  await insertTaskWithJob(storage, { workItemId: "before" });
  const unlock = await lockDatabase(path, 1500);

  const ids = Array.from({ length: 20 }, (_, i) => `during-${i}`);
  const acknowledged: string[] = [];
  await Promise.all(
    ids.map(async (workItemId) => {
      await insertTaskWithJob(storage, { workItemId });
      acknowledged.push(workItemId);
    }),
  );
  await unlock();
  await insertTaskWithJob(storage, { workItemId: "after" });

  expect(acknowledged).toEqual(ids);
  expect(await readByAnotherProcess(path)).toEqual(["before", ...ids, "after"]);
});

test("a write that never gets the lock is refused as busy and leaves nothing; the next one is kept", async () => {
  const { storage, path } = await openTestStorage({ busyLimitMs: 300 });
  const unlock = await lockDatabase(path);
  const refused = insertTaskWithJob(storage, { workItemId: "refused" });
  await expect(refused).rejects.toBeInstanceOf(StorageBusyError);
  await unlock();
  await insertTaskWithJob(storage, { workItemId: "kept" });
  expect(await readByAnotherProcess(path)).toEqual(["kept"]);
});

test("whoever waits for the lock is refused at once when there is no time left, and so is who comes after", async () => {
  const { path, url } = await openTestStorage();
  const hurry = new AbortController();
  const options = { url, authToken: null, synchronous: "FULL", readOnly: false } as const;
  const connection = new Connection({ ...options, busyLimitMs: 3_600_000, hurry: hurry.signal });
  onTestFinished(() => connection.close());
  await lockDatabase(path);
  const write = () => connection.transaction((tx) => tx.run("DELETE FROM task_events"));
  const waiting = write();
  const reading = connection.query("SELECT 1 AS one");
  hurry.abort();
  await expect(waiting).rejects.toBeInstanceOf(StorageBusyError);
  await expect(write()).rejects.toBeInstanceOf(StorageBusyError);
  expect(await reading).toEqual([{ one: 1 }]);
});

test("foreign keys, WAL and synchronous=FULL are set again after the connection was replaced", async () => {
  const { storage, path } = await openTestStorage();
  const unlock = await lockDatabase(path, 400);
  await insertTaskWithJob(storage, { workItemId: "through-the-lock" });
  await unlock();
  const pragmas = await storage.write(async (tx) => [
    ...(await tx.query("PRAGMA foreign_keys")),
    ...(await tx.query("PRAGMA journal_mode")),
    ...(await tx.query("PRAGMA synchronous")),
  ]);
  expect(pragmas).toEqual([{ foreignKeys: 1 }, { journalMode: "wal" }, { synchronous: 2 }]);
});
