import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { removeTree } from "@orchestrator/shared/remove_tree.ts";
import { borrowObjects } from "./borrow_objects.ts";
import { kindOf } from "./careful_files.ts";
import type { Mirror } from "./mirror.ts";
import { type RefFiles, readRefFiles } from "./ref_files.ts";
import { SCRATCH } from "./stale_files.ts";

/** A git directory of ours through which a workspace is read, its owner's own never being used by git. */
export interface OwnGitDir {
  gitDir: string;
  /** For files of the operation, removed with the directory. */
  scratch: string;
  /** What the workspace's own `.git` says; null where it is not a directory: then there are only files. */
  theirs: RefFiles | null;
  notes: string[];
}

/**
 * `commitGraph`, `multiPackIndex` and bitmaps are shortcuts that a stranger's objects could lie through. Nothing here
 * outlives the operation, so nothing needs to reach the disk.
 */
const CONFIG = `[core]
	repositoryFormatVersion = 0
	bare = false
	fileMode = true
	symlinks = true
	logAllRefUpdates = false
	commitGraph = false
	multiPackIndex = false
	fsync = none
[pack]
	useBitmaps = false
`;

/**
 * Runs `work` with a fresh git directory that reads the objects of the mirror and of the workspace and writes into neither.
 * It stands inside the mirror, so that one that a crash left is removed with the mirror's other unfinished files.
 */
export const withOwnGitDir = async <T>(
  mirror: Mirror,
  workspace: string,
  work: (own: OwnGitDir) => Promise<T>,
): Promise<T> => {
  await makeScratch(join(mirror.gitDir, SCRATCH));
  const scratch = await mkdtemp(join(mirror.gitDir, SCRATCH, "work-"));
  try {
    return await work(await openOwnGitDir(mirror, workspace, scratch));
  } finally {
    await removeTree(scratch);
  }
};

/** Not `recursive`: with that the runtime calls a read-only file system a missing folder. */
const makeScratch = async (path: string): Promise<void> => {
  try {
    await mkdir(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
};

const openOwnGitDir = async (mirror: Mirror, workspace: string, scratch: string): Promise<OwnGitDir> => {
  const gitDir = join(scratch, "git");
  const borrowed = join(scratch, "borrowed");
  for (const folder of ["objects/info", "objects/pack", "refs", "info"]) {
    await mkdir(join(gitDir, folder), { recursive: true });
  }
  await writeFile(join(gitDir, "HEAD"), "ref: refs/heads/none\n");
  await writeFile(join(gitDir, "config"), CONFIG);
  const alternates = [join(mirror.gitDir, "objects")];

  const dotGit = join(workspace, ".git");
  const kind = await kindOf(dotGit);
  if (kind !== "directory") {
    await writeFile(join(gitDir, "objects/info/alternates"), `${alternates.join("\n")}\n`);
    const what = kind === "absent" ? "is gone" : `has become a ${kind === "other" ? "special file" : kind}`;
    return { gitDir, scratch, theirs: null, notes: [`.git ${what}: only the files were taken`] };
  }
  const notes = await borrowObjects(join(dotGit, "objects"), borrowed);
  alternates.push(borrowed);
  await writeFile(join(gitDir, "objects/info/alternates"), `${alternates.join("\n")}\n`);
  const theirs = await readRefFiles(dotGit);
  return { gitDir, scratch, theirs, notes: [...notes, ...theirs.notes] };
};
