import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const RUNTIMES = ["node", "deno"] as const;
export type Runtime = (typeof RUNTIMES)[number];

export const isRuntime = (name: string): name is Runtime => (RUNTIMES as readonly string[]).includes(name);

/** The runtime that this process itself runs on. */
export const ownRuntime = (): Runtime => ("deno" in process.versions ? "deno" : "node");

const modules = fileURLToPath(new URL("../../node_modules/", import.meta.url));

/**
 * The Deno that npm installed. The program in `node_modules/.bin` may be a wrapper that dies of SIGTERM and leaves Deno
 * running, so the binary of the package for this platform is named itself.
 */
const denoBinary = (): string => {
  const found = readdirSync(join(modules, "@deno")).map((platform) => join(modules, "@deno", platform, "deno"));
  if (!found[0]) throw new Error(`no Deno in ${modules}@deno: run "npm ci" first`);
  return found[0];
};

export interface RuntimeCommands {
  /** Program and arguments that run a TypeScript file with what is installed here. */
  typescript: readonly [string, ...string[]];
  /** The same for plain JavaScript. */
  javascript: readonly [string, ...string[]];
  /** How a project that has the runtime in its PATH starts a script. */
  inProject: readonly [string, ...string[]];
  /** The directory to put before PATH, so that `inProject` finds this very runtime; null: it is there by PATH already. */
  binDirectory: string | null;
}

/** How things are started on a runtime. A driver that runs on Deno finds `node` by PATH. */
export const runtimeCommands = (runtime: Runtime): RuntimeCommands => {
  if (runtime === "deno") {
    const run = [denoBinary(), "run", "-A"] as const;
    return { typescript: run, javascript: run, inProject: ["deno", "run", "-A"], binDirectory: dirname(run[0]) };
  }
  const node = ownRuntime() === "node" ? process.execPath : "node";
  return {
    typescript: [node, "--import", import.meta.resolve("tsx")],
    javascript: [node],
    inProject: ["node"],
    binDirectory: node === "node" ? null : dirname(node),
  };
};
