import { openSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { inTempFolder } from "@orchestrator/shared/process/in_temp_folder.ts";

/**
 * A text as a file that is open for reading and has no name any more, to be a program's standard input. Unlike a pipe it needs
 * nobody to feed it, has no limit, does not care whether it is read, and can be opened again as `/dev/stdin`.
 * @param tempFolder where it has its name for a moment.
 * @returns its descriptor, which the caller closes.
 * @throws {ToolError} `no_space` or `temporary_folder`.
 */
export const openNameless = (tempFolder: string, text: string): Promise<number> =>
  inTempFolder(tempFolder, async (folder) => {
    const path = join(folder, "text");
    await writeFile(path, text, { mode: 0o600 });
    return openSync(path, "r");
  });
