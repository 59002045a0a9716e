import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { ChangeSignal } from "@orchestrator/shared/change_signal.ts";
import { isDiskFull } from "@orchestrator/shared/disk_space.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";
import { BoundedFile, type FileLayout } from "./bounded_file.ts";

/** With more than this waiting for the disk, whoever appends should wait. */
const HIGH_WATER_BYTES = 1024 * 1024;

/** The log of one run: a bounded file. */
export interface RunLog {
  readonly path: string;
  /**
   * Takes any bytes, or text, and never throws. False: the disk is behind, and the next bytes had better wait for
   * `drained()`. After `close()` nothing is taken any more.
   */
  append(chunk: Uint8Array | string): boolean;
  /** Resolves when the disk has caught up, or the log has failed. */
  drained(): Promise<void>;
  /**
   * Writes what is waiting and closes the file. Calling it again gives the same promise.
   * @throws {ToolError} what kept the log from being written, if anything did.
   */
  close(): Promise<void>;
}

/** A log as those see it who read it while it is written. */
export interface GrowingLog extends RunLog {
  /** Where in the file stands what: for reading it while it is written. */
  readonly layout: FileLayout;
  /** True once everything was written and the file was closed: it does not change any more. */
  readonly closed: boolean;
  /** Tells of each change of the file, and of its being closed. */
  readonly changed: ChangeSignal;
}

const toolError = (path: string, error: unknown): ToolError => {
  const { code } = error as NodeJS.ErrnoException;
  // A limit on the size of files (`ulimit -f`) leaves no room either.
  const kind = isDiskFull(code) || code === "EFBIG" ? "no_space" : "run_log";
  return new ToolError(kind, `the log ${path} could not be written: ${(error as Error).message}`, { cause: error });
};

/**
 * Opens the log of a run, empty; its folder is made.
 * @param maxBytes the size that the file never exceeds (`ORCH_LOG_MAX_BYTES`).
 * @throws {ToolError} `no_space`, or `run_log` for any other reason.
 */
export const openRunLog = async ({ path, maxBytes }: { path: string; maxBytes: number }): Promise<GrowingLog> => {
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    return new FileRunLog(path, await BoundedFile.open(path, maxBytes));
  } catch (error) {
    if (error instanceof RangeError) throw error;
    throw toolError(path, error);
  }
};

class FileRunLog implements GrowingLog {
  readonly path: string;
  readonly changed = new ChangeSignal();
  readonly #file: BoundedFile;
  /** What kept the log from being written; from then on whatever is appended is dropped, and nobody has to wait. */
  #failed: ToolError | null = null;
  #waiting: Uint8Array[] = [];
  #waitingBytes = 0;
  /** Set while something is being written; resolves when nothing is waiting any more. */
  #writing: Promise<void> | null = null;
  #closing: Promise<void> | null = null;
  #closed = false;

  constructor(path: string, file: BoundedFile) {
    this.path = path;
    this.#file = file;
  }

  get layout(): FileLayout {
    return this.#file.layout;
  }

  get closed(): boolean {
    return this.#closed;
  }

  append(chunk: Uint8Array | string): boolean {
    if (this.#failed !== null || this.#closing !== null) return true;
    const bytes = typeof chunk === "string" ? Buffer.from(chunk) : chunk;
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
    this.#writing ??= this.#writeAll();
    return this.#waitingBytes < HIGH_WATER_BYTES;
  }

  async drained(): Promise<void> {
    await this.#writing;
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #writeAll(): Promise<void> {
    try {
      while (this.#waiting.length > 0) {
        const batch = this.#waiting;
        this.#waiting = [];
        this.#waitingBytes = 0;
        for (const bytes of joined(batch)) await this.#file.write(bytes);
        this.changed.notify();
      }
    } catch (error) {
      this.#failed = toolError(this.path, error);
      this.#waiting = [];
      this.#waitingBytes = 0;
    } finally {
      this.#writing = null;
    }
  }

  async #close(): Promise<void> {
    await this.#writing;
    try {
      await this.#file.close();
    } catch (error) {
      this.#failed ??= toolError(this.path, error);
    }
    this.#closed = true;
    this.changed.notify();
    if (this.#failed !== null) throw this.#failed;
  }
}

/** Many small chunks as one write; what is large already is not copied. */
const joined = (chunks: Uint8Array[]): Uint8Array[] =>
  chunks.every((chunk) => chunk.length < HIGH_WATER_BYTES) ? [Buffer.concat(chunks)] : chunks;
