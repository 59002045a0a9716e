import { stat } from "node:fs/promises";
import { createClient, LibsqlError } from "@libsql/client";

/** Held until `release`, or until the kernel sees the process gone. */
export interface KernelLock {
  readonly path: string;
  /**
   * Looks whether the file that is locked still stands at its path: the kernel locks files, not names, so whoever comes after
   * it was removed or replaced is refused no more.
   * @returns what is wrong, or null where it is in its place.
   */
  findFault(): Promise<string | null>;
  release(): void;
}

/**
 * Takes an exclusive lock that the kernel keeps for the life of this process: an open write transaction on a small database
 * of its own. It holds across containers that share the volume and while the process is stopped, and is free the moment the
 * process has died, however it died.
 *
 * The lock belongs to the process and the file: no other code may open this file, since closing any descriptor of it in this
 * process would drop the lock (POSIX record locks).
 *
 * @param path the lock file, made where it is missing; its directory must exist.
 * @returns the lock, or null where another process holds it.
 */
export const takeKernelLock = async (path: string): Promise<KernelLock | null> => {
  const client = createClient({ url: `file:${path}`, concurrency: 1, timeout: 0 });
  try {
    const transaction = await client.transaction("write");
    // A transaction that has only begun holds a lock of which other openers may still see the file as free to read; a write
    // inside it makes the claim one that any version of SQLite understands.
    await transaction.execute("CREATE TABLE IF NOT EXISTS held (by_the_scheduler INTEGER)");
    const held = await stat(path, { bigint: true });
    return {
      path,
      findFault: async () => {
        try {
          const found = await stat(path, { bigint: true });
          return found.dev === held.dev && found.ino === held.ino ? null : "another file stands in its place";
        } catch (error) {
          const { code, message } = error as NodeJS.ErrnoException;
          return code === "ENOENT" || code === "ENOTDIR" ? "it is gone" : `it cannot be looked at (${message})`;
        }
      },
      release: () => {
        transaction.close();
        client.close();
      },
    };
  } catch (error) {
    client.close();
    if (error instanceof LibsqlError && error.code.startsWith("SQLITE_BUSY")) return null;
    throw error;
  }
};
