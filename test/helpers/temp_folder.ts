import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

/** A folder of the test's own, removed when the test has finished. */
export const tempFolder = async (): Promise<string> => {
  const folder = await realpath(await mkdtemp(join(tmpdir(), "orchestrator-test-")));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
};
