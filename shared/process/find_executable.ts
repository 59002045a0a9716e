import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { delimiter, resolve } from "node:path";

export type FoundExecutable =
  | { kind: "found"; file: string }
  | { kind: "not_found" }
  /** There is something of that name, but it cannot be run. */
  | { kind: "not_executable"; file: string };

/** Where `execvp` looks when there is no PATH. */
const DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin";

/**
 * The file that `execvp` in that directory with that PATH would run for `name`. It is looked up here and not left to the
 * runtimes, so that both start the same file and say the same about one that is not there.
 * @param path the PATH of the process to be started.
 */
export const findExecutable = async (name: string, cwd: string, path: string | undefined): Promise<FoundExecutable> => {
  if (name.includes("/")) return lookAt(resolve(cwd, name));
  let found: FoundExecutable = { kind: "not_found" };
  for (const folder of (path ?? DEFAULT_PATH).split(delimiter)) {
    const seen = await lookAt(resolve(cwd, folder, name));
    if (seen.kind === "found") return seen;
    if (seen.kind === "not_executable" && found.kind === "not_found") found = seen;
  }
  return found;
};

const lookAt = async (file: string): Promise<FoundExecutable> => {
  try {
    if (!(await stat(file)).isFile()) return { kind: "not_executable", file };
    await access(file, constants.X_OK);
    return { kind: "found", file };
  } catch (error) {
    switch ((error as NodeJS.ErrnoException).code) {
      case "ENOENT":
      case "ENOTDIR":
        return { kind: "not_found" };
      case "EACCES":
      case "EPERM":
      case "ELOOP":
      case "ENAMETOOLONG":
        return { kind: "not_executable", file };
      default:
        throw error;
    }
  }
};
