import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileOfUrl } from "@orchestrator/shared/storage/connection.ts";
import { onTestFinished } from "vitest";
import { projectRoot, runtimeArgv } from "../../helpers/runtime.ts";

/** Has a foreign program take the database's write lock. @returns what ends it. */
export const lockDatabase = async (url: string): Promise<() => Promise<void>> => {
  const [program, ...args] = runtimeArgv("test/helpers/hold_write_lock.ts");
  const child = spawn(program, [...args, fileOfUrl(url), "60000"], {
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
