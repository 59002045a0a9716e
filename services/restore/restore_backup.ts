import { access, chmod, constants, copyFile, mkdir, mkdtemp, open, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { Config } from "@orchestrator/shared/config/config.ts";
import type { Git } from "@orchestrator/shared/git/run_git.ts";
import { namesIn } from "@orchestrator/shared/names_in.ts";
import { fileOfUrl, isFileUrl } from "@orchestrator/shared/storage/connection.ts";
import { findDamage } from "@orchestrator/shared/storage/copy_database.ts";
import { takeKernelLock } from "@orchestrator/shared/storage/kernel_lock.ts";
import { readKnownVersion } from "@orchestrator/shared/storage/migrate.ts";
import { openReadOnly } from "@orchestrator/shared/storage/open.ts";
import { UnusableError } from "@orchestrator/shared/unusable.ts";
import { makeUsable } from "@orchestrator/shared/usable_folder.ts";
import { BACKUP } from "../backup/gather_backup.ts";
import { lockFileOf } from "../scheduler/lock_file.ts";
import { SchedulerRunningError } from "../scheduler/scheduler_lock.ts";

const MIRROR_TIMEOUT_MS = 10 * 60_000;

export interface RestoreOptions {
  config: Pick<Config, "dataDir" | "reposDir" | "dbUrl" | "configPath">;
  git: Git;
  /** Told what was done, a line each. */
  say: (line: string) => void;
}

/**
 * Puts a backup in place: mirrors, configuration and tokens first, the database last, so that a restore that was cut short
 * can be begun again. A configuration and tokens that are there already stay.
 * @param fill puts the backup's files into the folder that it is given.
 * @throws where a scheduler runs, a database is there, or the backup is damaged; the database is not touched then.
 */
export const restoreBackup = async (
  { config, git, say }: RestoreOptions,
  fill: (folder: string) => Promise<void>,
): Promise<void> => {
  const { dataDir, reposDir, dbUrl, configPath } = config;
  await makeUsable("ORCH_DATA_DIR", dataDir);
  await makeUsable("ORCH_REPOS_DIR", reposDir);
  const database = isFileUrl(dbUrl) ? fileOfUrl(dbUrl) : null;
  const lock = database === null ? null : await takeKernelLock(await lockFileOf(dbUrl));
  if (database !== null && lock === null) throw new SchedulerRunningError(null);
  const folder = await mkdtemp(join(dataDir, "restore-"));
  try {
    if (database !== null && (await isThere(database))) {
      throw new UnusableError(
        `there is a database at ${database}`,
        "move it away, and its mirrors, then restore again",
      );
    }
    await fill(folder);
    const copy = join(folder, BACKUP.database);
    if (database !== null) await checkDatabase(copy);
    for (const bundle of await namesIn(join(folder, BACKUP.mirrors))) {
      const gitDir = join(reposDir, `${basename(bundle, ".bundle")}.git`);
      await restoreMirror(git, join(folder, BACKUP.mirrors, bundle), gitDir);
      say(`restored ${gitDir}`);
    }
    await mkdir(join(dataDir, BACKUP.secrets), { recursive: true, mode: 0o700 });
    for (const name of await namesIn(join(folder, BACKUP.secrets))) {
      const path = join(dataDir, BACKUP.secrets, name);
      if (!(await copyIfMissing(join(folder, BACKUP.secrets, name), path))) continue;
      await chmod(path, 0o600);
      say(`restored ${path}`);
    }
    if (await copyIfMissing(join(folder, BACKUP.config), configPath)) say(`restored ${configPath}`);
    if (database === null) return;
    // Of another database: SQLite would take them for this one's.
    for (const end of ["-wal", "-shm", "-journal"]) await rm(`${database}${end}`, { force: true });
    await rename(copy, database);
    const directory = await open(dirname(database));
    await directory.sync().finally(() => directory.close());
    say(`restored ${database}`);
  } finally {
    await rm(folder, { recursive: true });
    lock?.release();
  }
};

/** @throws where the copy is damaged, or made by a newer program. */
const checkDatabase = async (path: string): Promise<void> => {
  const connection = await openReadOnly(`file:${path}`, null);
  try {
    await readKnownVersion(connection);
    const [damage] = await findDamage(connection);
    if (damage !== undefined)
      throw new UnusableError(`the backup's database is damaged (${damage})`, "use another backup");
  } finally {
    await connection.close();
  }
  const file = await open(path, "r+");
  await file.sync().finally(() => file.close());
};

/** Every ref as it was; what is there already and goes by another name stays. */
const restoreMirror = async (git: Git, bundle: string, gitDir: string): Promise<void> => {
  await git.ok(["init", "--quiet", "--bare", "--template=", "--initial-branch=main", gitDir], { gitDir, cwd: "/" });
  const fetch = ["-c", "core.fsync=all", "-c", "fetch.unpackLimit=1", "fetch", "--quiet", "--no-auto-maintenance"];
  await git.ok([...fetch, "--no-write-fetch-head", "--", bundle, "+refs/*:refs/*"], {
    gitDir,
    timeoutMs: MIRROR_TIMEOUT_MS,
  });
};

const isThere = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => error.code !== "ENOENT",
  );

const copyIfMissing = (from: string, to: string): Promise<boolean> =>
  copyFile(from, to, constants.COPYFILE_EXCL).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOENT" && error.code !== "EEXIST") throw error;
      return false;
    },
  );
