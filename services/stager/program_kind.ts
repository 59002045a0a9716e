import { basename, isAbsolute } from "node:path";
import type { Command } from "./plan.ts";
import type { ProgramKind } from "./verdict.ts";

const SHELLS = new Set(["sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"]);

/** Whose program a command begins with. */
export const programKind = (command: Command): ProgramKind => {
  if (command.kind === "shell") return "shell";
  const [name] = command.argv;
  if (!name.includes("/")) return SHELLS.has(name) ? "shell" : "command";
  if (!isAbsolute(name)) return "own";
  return SHELLS.has(basename(name)) ? "shell" : "absolute";
};
