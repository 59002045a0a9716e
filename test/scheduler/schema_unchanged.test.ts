import { createClient } from "@libsql/client";
import { expect, test } from "vitest";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../helpers/scheduler.ts";

/** The schema as the file holds it, byte for byte. */
const schemaOf = async (url: string): Promise<string> => {
  const client = createClient({ url, concurrency: 1 });
  const { rows } = await client.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY rowid");
  client.close();
  return JSON.stringify(rows);
};

test("sqlite_schema is the same with finalizer-liveness and the staging runner on and off, before and after use", async () => {
  const schemas: string[] = [];
  for (const finalizerLivenessEnabled of [true, false]) {
    for (const stagingRunnerEnabled of [true, false]) {
      const site = await makeSite({ finalizerLivenessEnabled, stagingRunnerEnabled });
      const scheduler = await startTestScheduler(site);
      schemas.push(await schemaOf(site.config.dbUrl));
      await postTask(scheduler, { workItemId: "ORCH-1", stage: "testing" });
      // With the staging runner on there is no stager here to answer: the item gets as far as waiting for it.
      await taskWhen(
        scheduler,
        "ORCH-1",
        ({ task, events }) =>
          task.status === "done" || events.some((event) => event.detail.by === "stager_unreachable"),
      );
      await scheduler.reaper.sweep();
      schemas.push(await schemaOf(site.config.dbUrl));
      await scheduler.stop();
      schemas.push(await schemaOf(site.config.dbUrl));
    }
  }
  expect(schemas).toHaveLength(12);
  expect(new Set(schemas).size).toBe(1);
  expect(schemas[0]).toContain("CREATE TABLE tasks");
});
