import { execFile } from "node:child_process";
import { mkdir, statfs } from "node:fs/promises";
import { promisify } from "node:util";
import { onTestFinished } from "vitest";

const run = promisify(execFile);

/** As large as the scheduler wants it before it claims anything. Nothing of it is taken from memory until it is written. */
const ROOMY_BYTES = 512 * 1024 * 1024;

export interface SmallDisk {
  /** Takes away all the room that is left. */
  fill(): Promise<void>;
  /** Leaves so many bytes of room. */
  leave(bytes: number): Promise<void>;
  /** Lets no new file be made, or only so many. */
  refuseFiles(left?: number): Promise<void>;
  /** Gives all of it back. */
  free(): Promise<void>;
}

/** Mounts a file system of its own at `folder`, which is made; it is taken away when the test has finished. Needs root. */
export const mountSmallDisk = async (folder: string): Promise<SmallDisk> => {
  await mkdir(folder, { recursive: true });
  await run("mount", ["-t", "tmpfs", "-o", `size=${ROOMY_BYTES}`, "orchestrator-test", folder]);
  onTestFinished(async () => {
    await run("umount", ["--lazy", folder]);
  });
  const resize = async (options: string) => {
    await run("mount", ["-o", `remount,${options}`, folder]);
  };
  const free = () => resize(`size=${ROOMY_BYTES},nr_inodes=100000`);
  const leave = async (bytes: number) => {
    // Whoever is still writing when a test fails must come to an end.
    onTestFinished(free);
    for (let tries = 1; ; tries++) {
      const { blocks, bfree, bsize } = await statfs(folder);
      // What was written since it was looked at makes the kernel refuse.
      // No size at all would mean that there is no limit.
      const size = Math.max((blocks - bfree) * bsize + bytes, bsize);
      const refused = await resize(`size=${size}`).catch((error: unknown) => error);
      if (refused === undefined) return;
      if (tries === 20) throw refused;
    }
  };
  return {
    leave,
    fill: () => leave(0),
    refuseFiles: async (left = 0) => {
      onTestFinished(free);
      const { files, ffree } = await statfs(folder);
      await resize(`nr_inodes=${files - ffree + left}`);
    },
    free,
  };
};
