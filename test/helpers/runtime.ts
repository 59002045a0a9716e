import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

export const isDeno = "Deno" in globalThis;

/** The argv that runs a TypeScript file of this project on the runtime that the suite runs on. */
export const runtimeArgv = (file: string): [string, ...string[]] => {
  const path = existsSync(file) ? file : `${root}/${file}`;
  return isDeno ? [process.execPath, "run", "-A", path] : [process.execPath, "--import", "tsx", path];
};

/** The project's folder: children are started here, so that `tsx` and the workspaces resolve. */
export const projectRoot = root;
