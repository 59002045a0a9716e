import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileOfUrl } from "@orchestrator/shared/storage/connection.ts";
import { onTestFinished } from "vitest";
import { projectRoot, runtimeArgv } from "./runtime.ts";

/**
 * Has a foreign program take the write lock of a database, until it has held it for so long or the test has finished.
 * @param database its URL or its path.
 * @returns what ends that program before.
 */
export const lockDatabase = async (database: string, holdMs = 60_000): Promise<() => Promise<void>> => {
  const [program, ...args] = runtimeArgv("test/helpers/hold_write_lock.ts");
  const child = spawn(program, [...args, fileOfUrl(database), String(holdMs)], {
    cwd: projectRoot,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exited = once(child, "exit");
  const end = async () => {
    child.kill("SIGKILL");
    await exited;
  };
  onTestFinished(end);
  await once(child.stdout!, "data");
  return end;
};
