import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { isDiskFull } from "../disk_space.ts";
import { ToolError } from "../tool_error.ts";

/**
 * Calls `use` with a fresh folder that only this user can enter, and removes it afterwards. What was opened there stays open.
 * A process that is killed meanwhile leaves it behind.
 * @param parent where it is made: a folder that somebody clears of what is left there.
 * @throws {ToolError} `no_space` or `temporary_folder` where a file system fails, and what else `use` throws.
 */
export const inTempFolder = async <T>(parent: string, use: (folder: string) => Promise<T>): Promise<T> => {
  try {
    const folder = await mkdtemp(join(parent, "orchestrator-"));
    try {
      return await use(folder);
    } finally {
      await rm(folder, { recursive: true });
    }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const isFull = isDiskFull(code) || /no space left/i.test(message);
    if (error instanceof ToolError || (code === undefined && !isFull)) throw error;
    const todo = isFull ? "make room there" : "it must be a folder that this user may write to";
    throw new ToolError(
      isFull ? "no_space" : "temporary_folder",
      `temporary files cannot be made in ${parent} (${message}): ${todo}`,
      { cause: error },
    );
  }
};
