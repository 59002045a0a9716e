import { expect, test } from "vitest";
import { lockDatabase } from "../helpers/lock_database.ts";
import { openTestStorage } from "../helpers/storage.ts";
import { makePlace, startIn, whyFailed } from "./starting.ts";

// The start waits for half a minute before it gives up: a backup may be over by then.
test("a database that another program does not let go ends the start with one line", async () => {
  const place = await makePlace();
  const { storage } = await openTestStorage({ path: place.database });
  await storage.close();
  await lockDatabase(place.database, 600_000);
  expect(whyFailed(await startIn("scheduler", place, {}), 73)).toBe(
    "the database has been locked by another program for more than 30000 ms; nothing was written. " +
      "End the program that holds it (a database shell or a backup that is still open?)",
  );
}, 90_000);
