import { type ChildProcess, execFile } from "node:child_process";
import { closeSync, constants, openSync } from "node:fs";
import { Socket } from "node:net";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { promisify } from "node:util";
import { inTempFolder } from "./in_temp_folder.ts";

/** Where a child's standard output and error go, and how they are read. */
export interface ChildOutput {
  /** For both the second and the third place of `stdio`. */
  stdio: "pipe" | number;
  /** To be called right after the spawn: what the child writes, in one stream or two, which end when its last writer has gone. */
  streams(child: ChildProcess): Readable[];
  /** To be called instead where the spawn failed. */
  abandon(): void;
}

/**
 * Node makes a child's `pipe` a socket, and a socket cannot be opened by name: `echo x > /dev/stderr` fails in a script, and
 * a server that logs to /dev/stdout does not start. Deno makes real pipes.
 */
const PIPES_ARE_SOCKETS = !("deno" in process.versions);

/**
 * Output of a child that it can also open as `/dev/stdout` and `/dev/stderr`, as it could under a shell. Under Node both go
 * through one pipe, in the order in which they were written.
 * @param tempFolder where the pipe has its name for a moment.
 * @throws {ToolError} `no_space` or `temporary_folder`, where no named pipe can be made (`mkfifo`).
 */
export const openChildOutput = async (tempFolder: string): Promise<ChildOutput> =>
  PIPES_ARE_SOCKETS ? openPipe(tempFolder) : OWN_PIPES;

const OWN_PIPES: ChildOutput = {
  stdio: "pipe",
  streams: (child) => [child.stdout!, child.stderr!],
  abandon: () => {},
};

const openPipe = (tempFolder: string): Promise<ChildOutput> =>
  inTempFolder(tempFolder, async (folder) => {
    const path = join(folder, "pipe");
    await promisify(execFile)("mkfifo", ["-m", "600", path]);
    // The reader first and without waiting: a writer could not be opened without one, nor the reader without a writer.
    const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const writer = openSync(path, constants.O_WRONLY);
    return {
      stdio: writer,
      streams: () => {
        closeSync(writer);
        return [new Socket({ fd: reader, readable: true, writable: false })];
      },
      abandon: () => {
        closeSync(writer);
        closeSync(reader);
      },
    };
  });
