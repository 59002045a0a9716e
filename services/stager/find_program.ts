import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { basename, delimiter, isAbsolute, resolve } from "node:path";
import type { Command } from "./plan.ts";
import type { ProgramKind } from "./verdict.ts";

export type FoundProgram =
  | { kind: "found"; file: string }
  | { kind: "not_found" }
  /** There is something of that name, but it cannot be run. */
  | { kind: "not_executable" };

const SHELLS = new Set(["sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"]);

/** Where execvp looks when there is no PATH. */
const DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin";

/** Whose program a command begins with. */
export const programKind = (command: Command): ProgramKind => {
  if (command.kind === "shell") return "shell";
  const [name] = command.argv;
  if (!name.includes("/")) return SHELLS.has(name) ? "shell" : "command";
  if (!isAbsolute(name)) return "own";
  return SHELLS.has(basename(name)) ? "shell" : "absolute";
};

/**
 * The file that execvp would run for `name`. Looked up here rather than left to the spawn, so that a missing command and a
 * missing interpreter are told apart, and alike on every runtime.
 */
export const findProgram = async (name: string, cwd: string, path: string | undefined): Promise<FoundProgram> => {
  if (name.includes("/")) return look(resolve(cwd, name));
  let found: FoundProgram = { kind: "not_found" };
  for (const folder of (path ?? DEFAULT_PATH).split(delimiter)) {
    const seen = await look(resolve(cwd, folder, name));
    if (seen.kind === "found") return seen;
    if (seen.kind === "not_executable") found = seen;
  }
  return found;
};

const look = async (file: string): Promise<FoundProgram> => {
  try {
    if (!(await stat(file)).isFile()) return { kind: "not_executable" };
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
        return { kind: "not_executable" };
      default:
        throw error;
    }
  }
};
