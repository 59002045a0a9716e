import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { git } from "./git.ts";

/** A bare repository with one commit on `main`, as a team's server has it. @returns its path. */
export const makeRemote = async (folder: string, files: Record<string, string> = {}): Promise<string> => {
  const remote = join(folder, "shop.git");
  const seed = join(folder, "seed");
  await git(folder, "init", "-q", "--bare", "-b", "main", remote);
  await git(folder, "init", "-q", "-b", "main", seed);
  for (const [path, text] of Object.entries({ "code.txt": "first\n", ...files })) {
    await mkdir(dirname(join(seed, path)), { recursive: true });
    await writeFile(join(seed, path), text);
  }
  await git(seed, "add", "-A");
  await git(seed, "commit", "-q", "-m", "first");
  await git(seed, "push", "-q", remote, "main");
  return remote;
};

/** Lets the server run a script when a push comes in, before any ref moves. */
export const setPreReceive = async (remote: string, script: string): Promise<void> => {
  await writeFile(join(remote, "hooks", "pre-receive"), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
};
