import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { compose, run } from "./engine.ts";

/**
 * Before all tests: an engine, a base image, and both images built from this checkout. After them everything that they made is
 * taken away, and an engine that was not running before is ended.
 */
export default async function setup(): Promise<() => Promise<void>> {
  const folder = await mkdtemp(join(tmpdir(), "compose-"));
  const pidFile = join(folder, "dockerd.pid");
  const prepare = fileURLToPath(new URL("prepare.sh", import.meta.url));
  await run("bash", [prepare, pidFile], { timeoutMs: 600_000, shown: true });
  // What an interrupted run left behind.
  await compose(["--profile", "demo", "--profile", "monitoring", "down", "--volumes", "--remove-orphans"]);
  await compose(["build"], { timeoutMs: 900_000, shown: true });
  return async () => {
    await compose(["--profile", "demo", "--profile", "monitoring", "down", "--volumes", "--remove-orphans"]);
    const pid = await readFile(pidFile, "utf8").then(Number, () => null);
    if (pid !== null) await endEngine(pid);
    await rm(folder, { recursive: true });
  };
}

const endEngine = async (pid: number): Promise<void> => {
  process.kill(pid, "SIGTERM");
  for (let tries = 0; tries < 300; tries++) {
    try {
      process.kill(pid, 0);
    } catch {
      return;
    }
    await delay(100);
  }
  throw new Error(`dockerd (pid ${pid}) did not end within 30 s`);
};
