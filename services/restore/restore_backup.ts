import { chmod, mkdir, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { Config } from "@orchestrator/shared/config/config.ts";
import type { Git } from "@orchestrator/shared/git/run_git.ts";
import { isThere } from "@orchestrator/shared/is_there.ts";
import { namesIn } from "@orchestrator/shared/names_in.ts";
import { isFileUrl } from "@orchestrator/shared/storage/connection.ts";
import { findDamage } from "@orchestrator/shared/storage/copy_database.ts";
import { databaseFileOf } from "@orchestrator/shared/storage/database_file.ts";
import { takeKernelLock } from "@orchestrator/shared/storage/kernel_lock.ts";
import { readKnownVersion } from "@orchestrator/shared/storage/migrate.ts";
import { openReadOnly } from "@orchestrator/shared/storage/open.ts";
import { UnusableError } from "@orchestrator/shared/unusable.ts";
import { makeUsable } from "@orchestrator/shared/usable_folder.ts";
import { BACKUP } from "../backup/gather_backup.ts";
import { inWorkFolder } from "../backup/work_folder.ts";
import { lockFileOf } from "../scheduler/lock_file.ts";
import { SchedulerRunningError } from "../scheduler/scheduler_lock.ts";
import { bringBeside, placeIfMissing, putInPlace, takeAway } from "./place_file.ts";

const MIRROR_TIMEOUT_MS = 10 * 60_000;

export interface RestoreOptions {
  config: Pick<Config, "dataDir" | "reposDir" | "dbUrl" | "configPath">;
  git: Git;
  /** Told what was done, a line each. */
  say: (line: string) => void;
  signal: AbortSignal;
}

/**
 * Puts a backup in place: mirrors, configuration and tokens first, the database last, so that a restore that was cut short
 * can be begun again. A configuration and tokens that are there already stay.
 * @param fill puts the backup's files into the folder that it is given.
 * @throws where a scheduler runs, a database is there, or the backup is damaged; the database is not touched then.
 */
export const restoreBackup = async (
  options: RestoreOptions,
  fill: (folder: string) => Promise<void>,
): Promise<void> => {
  const { config, say } = options;
  await makeUsable("ORCH_DATA_DIR", config.dataDir);
  await makeUsable("ORCH_REPOS_DIR", config.reposDir);
  const inFolder = (use: (folder: string) => Promise<void>): Promise<void> =>
    inWorkFolder({ parent: config.dataDir, kind: "restore", say }, async (folder) => {
      await fill(folder);
      await use(folder);
    });
  if (!isFileUrl(config.dbUrl)) return inFolder((folder) => restoreFiles(options, folder));

  const database = await databaseFileOf(config.dbUrl);
  await makeUsable("ORCH_DB_URL", dirname(database));
  const lock = await takeKernelLock(await lockFileOf(config.dbUrl));
  if (lock === null) throw new SchedulerRunningError(null);
  try {
    if (await isThere(database)) {
      throw new UnusableError(
        `there is a database at ${database}`,
        "move it away, and its mirrors, then restore again",
      );
    }
    // What a restore that was killed has left there (with the lock there is none that lives): the unpacking may need its room.
    await takeAway(database);
    await inFolder(async (folder) => {
      const copy = join(folder, BACKUP.database);
      await checkDatabase(copy);
      await bringBeside(copy, database);
      await restoreFiles(options, folder);
      // Of another database: SQLite would take them for this one's.
      for (const end of ["-wal", "-shm", "-journal"]) await rm(`${database}${end}`, { force: true });
      options.signal.throwIfAborted();
      await putInPlace(database);
      say(`restored ${database}`);
    });
  } finally {
    await takeAway(database);
    lock.release();
  }
};

/** All but the database. */
const restoreFiles = async ({ config, git, say, signal }: RestoreOptions, folder: string): Promise<void> => {
  const { dataDir, reposDir, configPath } = config;
  for (const bundle of await namesIn(join(folder, BACKUP.mirrors))) {
    signal.throwIfAborted();
    const gitDir = join(reposDir, `${basename(bundle, ".bundle")}.git`);
    await restoreMirror(git, join(folder, BACKUP.mirrors, bundle), gitDir, signal);
    say(`restored ${gitDir}`);
  }
  await mkdir(join(dataDir, BACKUP.secrets), { recursive: true, mode: 0o700 });
  for (const name of await namesIn(join(folder, BACKUP.secrets))) {
    signal.throwIfAborted();
    const path = join(dataDir, BACKUP.secrets, name);
    await chmod(join(folder, BACKUP.secrets, name), 0o600);
    if (await placeIfMissing("ORCH_DATA_DIR", join(folder, BACKUP.secrets, name), path)) say(`restored ${path}`);
  }
  signal.throwIfAborted();
  if (await placeIfMissing("ORCH_CONFIG", join(folder, BACKUP.config), configPath)) say(`restored ${configPath}`);
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
};

/** Every ref as it was; what is there already and goes by another name stays. */
const restoreMirror = async (git: Git, bundle: string, gitDir: string, signal: AbortSignal): Promise<void> => {
  const init = ["init", "--quiet", "--bare", "--template=", "--initial-branch=main", gitDir];
  await git.ok(init, { gitDir, cwd: "/", signal });
  const fetch = ["-c", "core.fsync=all", "-c", "fetch.unpackLimit=1", "fetch", "--quiet", "--no-auto-maintenance"];
  await git.ok([...fetch, "--no-write-fetch-head", "--", bundle, "+refs/*:refs/*"], {
    gitDir,
    signal,
    timeoutMs: MIRROR_TIMEOUT_MS,
  });
};
