import { join } from "node:path";
import { namesIn } from "@orchestrator/shared/names_in.ts";
import { removeTree } from "@orchestrator/shared/remove_tree.ts";
import { kindOf } from "./careful_files.ts";

/** Directory inside a mirror for what lives only as long as one operation. */
export const SCRATCH = "orchestrator-scratch";

/** Names that git gives to what it has not finished; a git that was killed leaves them, and locks among them block the next. */
const UNFINISHED = {
  top: /^(.+\.lock|gc\.pid|fast_import_crash_\d+)$/,
  refs: /\.lock$/,
  objects: /^(incoming-|tmp_objdir-|tmp_obj_)/,
  info: /(\.lock|^tmp_)/,
  pack: /^(tmp_|\.tmp-)|\.(keep|lock)$/,
  loose: /^tmp_obj_/,
} as const;

/**
 * Removes what a killed git left unfinished in a bare repository: lock files, temporary objects, packs and directories.
 * Right only while no git works there. Answers with what was removed, relative to `gitDir`.
 */
export const removeStaleFiles = async (gitDir: string): Promise<string[]> => {
  const removed: string[] = [];
  const sweep = async (folder: string, unfinished: RegExp): Promise<string[]> => {
    const stay: string[] = [];
    for (const name of await namesIn(join(gitDir, folder))) {
      if (!unfinished.test(name)) {
        stay.push(name);
        continue;
      }
      const path = join(folder, name);
      await removeTree(join(gitDir, path));
      removed.push(path);
    }
    return stay;
  };
  const sweepDeep = async (folder: string): Promise<void> => {
    for (const name of await sweep(folder, UNFINISHED.refs)) {
      const path = join(folder, name);
      if ((await kindOf(join(gitDir, path))) === "directory") await sweepDeep(path);
    }
  };
  await sweep("", UNFINISHED.top);
  await sweepDeep("refs");
  const objects = await sweep("objects", UNFINISHED.objects);
  await sweep("objects/info", UNFINISHED.info);
  await sweep("objects/pack", UNFINISHED.pack);
  for (const name of objects) {
    if (/^[0-9a-f]{2}$/.test(name)) await sweep(join("objects", name), UNFINISHED.loose);
  }
  await sweep(SCRATCH, /./);
  return removed;
};
