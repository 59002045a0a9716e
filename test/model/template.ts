import { join } from "node:path";
import { createClient } from "@libsql/client";
import { FakeClock } from "../helpers/fake_clock.ts";
import { tempFolder } from "../helpers/temp_folder.ts";
import { SchedulerInHand } from "./scheduler_in_hand.ts";

/** A folder with a database in it that has been migrated and holds nothing, for each run to begin with a copy. */
export const makeTemplate = async (): Promise<{ folder: string; template: string }> => {
  const folder = await tempFolder();
  const template = join(folder, "template.db");
  const { storage } = await SchedulerInHand.open(template, new FakeClock());
  await storage.close();
  // What was written stands in the log beside it; only the file itself is copied.
  const client = createClient({ url: `file:${template}`, concurrency: 1 });
  await client.execute("PRAGMA wal_checkpoint(TRUNCATE)");
  client.close();
  return { folder, template };
};
