import { randomBytes } from "node:crypto";
import { chmod, link, mkdir, open, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { tokenFile } from "./config/token_files.ts";
import type { Environment } from "./config/variables.ts";
import { isThere } from "./is_there.ts";
import { unusableFolder } from "./usable_folder.ts";

/**
 * Makes the tokens that neither the environment gives nor a file holds, where `ORCH_MAKE_TOKENS` asks for it. Each is 256
 * random bits in `<data>/secrets`, readable for this user alone; a file is there whole or not at all.
 * @returns the paths of what was made.
 * @throws {UnusableError} where they cannot be written.
 */
export const makeTokens = async (env: Environment, cwd: string): Promise<string[]> => {
  if (env["ORCH_MAKE_TOKENS"] !== "true") return [];
  const made: string[] = [];
  for (const name of ["ORCH_API_TOKEN", "ORCH_STAGER_TOKEN"] as const) {
    const path = tokenFile(name, env, cwd);
    if (path === null) continue;
    try {
      if (await isThere(path)) continue;
      if (await writeNew(path, `${randomBytes(32).toString("base64url")}\n`)) made.push(path);
    } catch (error) {
      throw await unusableFolder("ORCH_DATA_DIR", dirname(path), error);
    }
  }
  return made;
};

/** @returns false where another process was first: its file stays. */
const writeNew = async (path: string, content: string): Promise<boolean> => {
  const folder = dirname(path);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await chmod(folder, 0o700);
  const draft = `${path}.${process.pid}-${randomBytes(4).toString("hex")}`;
  const file = await open(draft, "wx", 0o600);
  try {
    await file.writeFile(content);
    await file.sync();
    await link(draft, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    return false;
  } finally {
    await file.close();
    await rm(draft, { force: true });
  }
};
