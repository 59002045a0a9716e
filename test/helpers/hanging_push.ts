import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import type { Site } from "./scheduler.ts";

/** A git whose pushes wait, as one does for a remote that is slow to take it, until they are let go. */
export interface HangingPush {
  /** A `PATH` on which it is found first. */
  path: string;
  /** Resolves with the pid of the first push, once it waits. */
  waits(): Promise<number>;
  letGo(): Promise<void>;
}

export const makeHangingPush = async ({ folder }: Site): Promise<HangingPush> => {
  const bin = join(folder, "bin");
  const [waiting, go] = [join(bin, "waiting"), join(bin, "go")];
  const script = [
    "#!/bin/sh",
    `export PATH='${process.env.PATH}'`,
    `case " $* " in *" push "*) echo $$ >${waiting}.part && mv ${waiting}.part ${waiting}; while [ ! -e ${go} ]; do sleep 0.05; done ;; esac`,
    'exec git "$@"',
    "",
  ];
  await mkdir(bin);
  await writeFile(join(bin, "git"), script.join("\n"));
  await chmod(join(bin, "git"), 0o755);
  const letGo = () => writeFile(go, "");
  onTestFinished(letGo);
  const pid = () => readFile(waiting, "utf8").then(Number, () => null);
  return {
    path: `${bin}:${process.env.PATH}`,
    waits: async () => {
      await expect.poll(pid, { timeout: 20_000 }).not.toBe(null);
      return (await pid())!;
    },
    letGo,
  };
};
