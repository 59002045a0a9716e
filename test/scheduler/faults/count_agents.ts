import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Site } from "../../helpers/scheduler.ts";

/** Has every agent write its run's id down before it does its duty, or `script`. @returns how many there were. */
export const countAgents = async (site: Site, script = ""): Promise<() => Promise<number>> => {
  const file = join(site.folder, "agents");
  await writeFile(file, "");
  await site.hook("any", `echo "$ORCH_RUN_ID" >>${file}\n${script}`);
  return async () => (await readFile(file, "utf8")).split("\n").length - 1;
};
