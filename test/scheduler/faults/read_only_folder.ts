import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { onTestFinished } from "vitest";

const run = promisify(execFile);

/**
 * Lays a read-only view of a folder over it: what is opened from now on cannot be written. Needs root.
 * @returns what takes it away; that happens at the latest when the test has finished.
 */
export const makeReadOnly = async (folder: string): Promise<() => Promise<void>> => {
  await run("mount", ["--bind", folder, folder]);
  await run("mount", ["-o", "remount,bind,ro", folder]);
  let isThere = true;
  const end = async () => {
    if (isThere) await run("umount", ["--lazy", folder]);
    isThere = false;
  };
  onTestFinished(end);
  return end;
};
