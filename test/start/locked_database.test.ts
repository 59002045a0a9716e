import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, onTestFinished, test } from "vitest";
import { runtimeArgv } from "../helpers/runtime.ts";
import { openTestStorage } from "../helpers/storage.ts";
import { makePlace, startIn, whyFailed } from "./starting.ts";

/** Has another program take the write lock of a database. */
const lockDatabase = async (path: string): Promise<void> => {
  const [program, ...args] = runtimeArgv("test/helpers/hold_write_lock.ts");
  const child = spawn(program, [...args, path, "600000"], { stdio: ["ignore", "pipe", "inherit"] });
  const gone = once(child, "close");
  onTestFinished(async () => {
    process.kill(child.pid!, "SIGKILL");
    await gone;
  });
  await once(child.stdout, "data");
};

// The start waits for half a minute before it gives up: a backup may be over by then.
test("a database that another program does not let go ends the start with one line", async () => {
  const place = await makePlace();
  const { storage } = await openTestStorage({ path: place.database });
  await storage.close();
  await lockDatabase(place.database);
  expect(whyFailed(await startIn("scheduler", place, {}), 73)).toBe(
    "the database has been locked by another program for more than 30000 ms; nothing was written. " +
      "End the program that holds it (a database shell or a backup that is still open?)",
  );
}, 90_000);
