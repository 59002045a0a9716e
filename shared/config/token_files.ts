import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { foundAccepted } from "./fault.ts";
import type { Environment } from "./variables.ts";

export type TokenName = "ORCH_API_TOKEN" | "ORCH_STAGER_TOKEN";

/** Each service reads what it needs. */
const NEEDED = {
  scheduler: ["ORCH_API_TOKEN", "ORCH_STAGER_TOKEN"],
  stager: ["ORCH_STAGER_TOKEN"],
} as const satisfies Record<string, readonly TokenName[]>;

const FILE_NAMES: Record<TokenName, string> = { ORCH_API_TOKEN: "api.token", ORCH_STAGER_TOKEN: "stager.token" };

export interface TokenFiles {
  tokens: Partial<Record<TokenName, string>>;
  /** Of files that are there and cannot be used. */
  faults: { name: TokenName; text: string }[];
}

/** Where the token stands that the environment does not give; null where it gives it. */
export const tokenFile = (name: TokenName, env: Environment, cwd: string): string | null =>
  isSet(env[name]) ? null : join(resolve(cwd, env["ORCH_DATA_DIR"] || "data"), "secrets", FILE_NAMES[name]);

/**
 * The tokens that stand in files of `<data>/secrets`. What the environment gives wins over a file, and a missing file is no
 * fault here: whether a token is needed is another question.
 */
export const readTokenFiles = (env: Environment, cwd: string, service: keyof typeof NEEDED): TokenFiles => {
  const read: TokenFiles = { tokens: {}, faults: [] };
  for (const name of NEEDED[service]) {
    const path = tokenFile(name, env, cwd);
    if (path === null) continue;
    try {
      const token = readFileSync(path, "utf8").trim();
      if (/^[\x21-\x7e]+$/.test(token)) read.tokens[name] = token;
      else read.faults.push({ name, text: fault(path, token === "" ? "nothing" : "a text (not shown here)") });
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === undefined) throw error;
      // A data directory that is no directory is a fault of its own, found where it is needed.
      if (code !== "ENOENT" && code !== "ENOTDIR") read.faults.push({ name, text: fault(path, `no access (${code})`) });
    }
  }
  return read;
};

const fault = (path: string, found: string): string =>
  foundAccepted(`${found} in ${path}`, "a token of printable ASCII characters without blanks (not shown here)");

const isSet = (value: string | undefined): boolean => value !== undefined && value !== "";
