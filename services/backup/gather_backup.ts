import { copyFile, mkdir } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Config } from "@orchestrator/shared/config/config.ts";
import type { Git } from "@orchestrator/shared/git/run_git.ts";
import { isThere } from "@orchestrator/shared/is_there.ts";
import { namesIn } from "@orchestrator/shared/names_in.ts";
import { isFileUrl } from "@orchestrator/shared/storage/connection.ts";
import { copyDatabase } from "@orchestrator/shared/storage/copy_database.ts";
import { databaseFileOf } from "@orchestrator/shared/storage/database_file.ts";
import { DatabaseMissingError } from "@orchestrator/shared/storage/open.ts";
import { inWorkFolder } from "./work_folder.ts";

/** What a backup holds, by the paths in it. */
export const BACKUP = {
  database: "orchestrator.db",
  mirrors: "mirrors",
  config: "orchestrator.yaml",
  secrets: "secrets",
} as const;

const MIRROR_TIMEOUT_MS = 10 * 60_000;

export interface BackupOptions {
  config: Pick<Config, "dataDir" | "reposDir" | "dbUrl" | "configPath">;
  git: Git;
  /** Told what was done, a line each. */
  say: (line: string) => void;
  signal?: AbortSignal;
}

/**
 * Gathers everything of a scheduler that cannot be made again in a folder, hands it to `use`, and removes it. The database is
 * copied first: what it names by then is in the mirrors, which only ever get more. Run logs and workspaces are left out.
 * @throws where anything cannot be read or written; nothing is left behind then.
 */
export const gatherBackup = async (
  { config, git, say, signal }: BackupOptions,
  use: (folder: string) => Promise<void>,
): Promise<void> =>
  inWorkFolder({ parent: config.dataDir, kind: "backup", say }, async (folder) => {
    if (isFileUrl(config.dbUrl)) {
      const path = await databaseFileOf(config.dbUrl);
      // Opening a file that is not there would make an empty one.
      if (!(await isThere(path))) throw new DatabaseMissingError(path);
      await copyDatabase(config.dbUrl, join(folder, BACKUP.database));
      say(`copied ${path}`);
    } else {
      say("the database is on a server and is to be backed up there; the mirrors must be copied after it");
    }
    await mkdir(join(folder, BACKUP.mirrors));
    for (const gitDir of await mirrorsIn(config.reposDir)) {
      signal?.throwIfAborted();
      const name = basename(gitDir, ".git");
      const refs = await git.ok(["for-each-ref", "--count=1"], { gitDir, signal });
      // Git makes no bundle of nothing.
      if (refs === "") continue;
      const bundle = join(folder, BACKUP.mirrors, `${name}.bundle`);
      await git.ok(["bundle", "create", "--quiet", bundle, "--all"], { gitDir, signal, timeoutMs: MIRROR_TIMEOUT_MS });
      say(`copied ${gitDir}`);
    }
    if (await copyIfThere(config.configPath, join(folder, BACKUP.config))) say(`copied ${config.configPath}`);
    await copySecrets(join(config.dataDir, "secrets"), join(folder, BACKUP.secrets));
    signal?.throwIfAborted();
    await use(folder);
  });

const mirrorsIn = async (reposDir: string): Promise<string[]> =>
  (await namesIn(reposDir)).filter((name) => name.endsWith(".git")).map((name) => join(reposDir, name));

const copySecrets = async (from: string, to: string): Promise<void> => {
  await mkdir(to, { mode: 0o700 });
  for (const name of await namesIn(from)) {
    if (name.endsWith(".token")) await copyFile(join(from, name), join(to, name));
  }
};

const copyIfThere = (from: string, to: string): Promise<boolean> =>
  copyFile(from, to).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOENT") throw error;
      return false;
    },
  );
