import { randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isThere } from "@orchestrator/shared/is_there.ts";
import { removeTree } from "@orchestrator/shared/remove_tree.ts";
import type { KernelLock } from "@orchestrator/shared/storage/kernel_lock.ts";
import { makeLockedFolder } from "@orchestrator/shared/storage/lock_folder.ts";

/** The names of what stands in the scratch directory, which several stagers may share. */
export const STAGER_FOLDER = /^stager-[0-9a-f]{16}$/;
const CACHE_FOLDER = "cache";
const RUNS_FOLDER = "runs";
const RUN_FILE = "run.json";

/** Which run a folder belongs to: what is left of it is found by these when its stager is gone. */
export interface RunIdentity {
  instanceId: string;
  runId: number;
}

/**
 * One stager's own part of the scratch directory. A lock that the kernel keeps for the life of the process says that it is
 * alive; where the lock is free, the folder and what runs in it are leftovers.
 */
export class Scratch {
  readonly folder: string;
  readonly #root: string;
  readonly #lock: KernelLock;

  private constructor(root: string, folder: string, lock: KernelLock) {
    this.#root = root;
    this.folder = folder;
    this.#lock = lock;
  }

  /** @param root `ORCH_SCRATCH_DIR`; made where it is missing. */
  static async open(root: string): Promise<Scratch> {
    await mkdir(root, { recursive: true });
    const { folder, lock } = await makeLockedFolder(root, async () => {
      const path = join(root, `stager-${randomBytes(8).toString("hex")}`);
      await mkdir(path);
      return path;
    });
    await mkdir(join(folder, RUNS_FOLDER));
    return new Scratch(root, folder, lock);
  }

  /** Makes the folder of a run, empty, and notes whose it is. */
  async makeRunFolder(identity: RunIdentity): Promise<string> {
    const folder = join(this.folder, RUNS_FOLDER, String(identity.runId));
    await removeTree(folder);
    await mkdir(folder);
    await writeFile(join(folder, RUN_FILE), JSON.stringify(identity));
    return folder;
  }

  /** The directory that a repository's runs may keep things in from one to the next, and stagers side by side share. */
  async cacheFolder(repo: string): Promise<string> {
    // A repository's name comes from the configuration; as one component of a path it can name nothing else.
    const folder = join(this.#root, CACHE_FOLDER, encodeURIComponent(repo).replace(/^\./, "%2E"));
    await mkdir(folder, { recursive: true });
    return folder;
  }

  /** @throws where nothing can be written there. */
  async probe(): Promise<void> {
    await writeFile(join(this.folder, "probe"), "");
  }

  /** Gives the folder up; nothing may run in it any more. */
  async close(): Promise<void> {
    await removeTree(this.folder);
    this.#lock.release();
  }
}

/** The runs that a stager's folder holds; `identity` is null where its stager died before it was noted. */
export const runFoldersIn = async (
  stagerFolder: string,
): Promise<{ folder: string; identity: RunIdentity | null }[]> => {
  const runs = join(stagerFolder, RUNS_FOLDER);
  const names = (await isThere(runs)) ? await readdir(runs) : [];
  return Promise.all(
    names.map(async (name) => ({ folder: join(runs, name), identity: await readIdentity(join(runs, name, RUN_FILE)) })),
  );
};

const readIdentity = async (file: string): Promise<RunIdentity | null> => {
  if (!(await isThere(file))) return null;
  try {
    const { instanceId, runId } = JSON.parse(await readFile(file, "utf8")) as Partial<RunIdentity>;
    return typeof instanceId === "string" && typeof runId === "number" ? { instanceId, runId } : null;
  } catch (error) {
    // Half written: the folder alone has to do.
    if (error instanceof SyntaxError) return null;
    throw error;
  }
};
