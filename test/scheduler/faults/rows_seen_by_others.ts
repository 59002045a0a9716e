import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { projectRoot, runtimeArgv } from "../../helpers/runtime.ts";

/** The work items that are in a database file, as another program finds them. */
export const rowsSeenByOthers = async (path: string): Promise<string[]> => {
  const [program, ...args] = runtimeArgv("test/helpers/count_rows.ts");
  const { stdout } = await promisify(execFile)(program, [...args, path], { cwd: projectRoot });
  return JSON.parse(stdout) as string[];
};
