import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ToolError } from "../tool_error.ts";

/**
 * Calls `use` with a fresh folder that only this user can enter, and removes it afterwards. What was opened there stays open.
 * @throws {ToolError} `no_space` or `temporary_folder`: whatever fails in there is the temporary directory's failure.
 */
export const inTempFolder = async <T>(use: (folder: string) => Promise<T>): Promise<T> => {
  try {
    const folder = await mkdtemp(join(tmpdir(), "orchestrator-"));
    try {
      return await use(folder);
    } finally {
      await rm(folder, { recursive: true });
    }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const isFull = code === "ENOSPC" || code === "EDQUOT" || /no space left/i.test(message);
    throw new ToolError(
      isFull ? "no_space" : "temporary_folder",
      `the temporary directory ${tmpdir()} cannot be used (${message}): ${isFull ? "make room there" : "correct TMPDIR"}`,
      { cause: error },
    );
  }
};
