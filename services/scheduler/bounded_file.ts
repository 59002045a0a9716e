import { type FileHandle, open } from "node:fs/promises";

/** Copies within the file go in pieces of this size. */
const BLOCK_BYTES = 1024 * 1024;
/** How far the kept end may be shortened so that it begins with a line. */
const LINE_SEARCH_BYTES = 4096;
const MARKER_BYTES = 80;
/** Below this there is no room for a beginning, the line between and an end. */
export const MIN_BYTES = 512;

/** The line between, always as long, so that its number can grow in place. */
export const droppedLine = (dropped: number): Buffer =>
  Buffer.from(`\n${`--- ${dropped} bytes of output dropped here `.padEnd(MARKER_BYTES - 2, "-")}\n`);

/** Where in the file stands what, for those who read it while it is written. */
export interface FileLayout {
  /** Grows each time the end is moved: what was read between two of them may be neither the old bytes nor the new. */
  moves: number;
  /** True while the end is being moved. */
  moving: boolean;
  size: number;
  /** Bytes that were written and are no longer in the file. */
  dropped: number;
  /** Length of the kept beginning, once something was dropped. */
  headBytes: number;
  /** Where the kept end begins, once something was dropped. */
  tailAt: number;
}

/**
 * A file that takes any number of bytes and never grows beyond its limit. It keeps the beginning and the end, with a line
 * between that says how many bytes were dropped, and reads from top to bottom at any time:
 *
 *     limit reached:       | beginning |        ...          | end |
 *     after the next byte: | beginning | line | end |  room for more  |
 *
 * A full file costs one copy of its end, after which about as much can be written as was copied.
 */
export class BoundedFile {
  readonly #file: FileHandle;
  readonly #maxBytes: number;
  readonly #headBytes: number;
  readonly #keepBytes: number;
  #size = 0;
  #dropped = 0;
  #moves = 0;
  #moving = false;

  private constructor(file: FileHandle, maxBytes: number) {
    this.#file = file;
    this.#maxBytes = maxBytes;
    this.#headBytes = Math.floor(maxBytes / 4);
    this.#keepBytes = Math.floor((maxBytes - this.#headBytes - MARKER_BYTES) / 2);
  }

  /** Creates or empties the file; only its owner can read it. */
  static async open(path: string, maxBytes: number): Promise<BoundedFile> {
    if (maxBytes < MIN_BYTES) throw new RangeError(`a bounded file needs at least ${MIN_BYTES} bytes, not ${maxBytes}`);
    return new BoundedFile(await open(path, "w+", 0o600), maxBytes);
  }

  get layout(): FileLayout {
    return {
      moves: this.#moves,
      moving: this.#moving,
      size: this.#size,
      dropped: this.#dropped,
      headBytes: this.#headBytes,
      tailAt: this.#headBytes + MARKER_BYTES,
    };
  }

  async write(bytes: Uint8Array): Promise<void> {
    for (let rest = bytes; rest.length > 0; ) {
      if (this.#size === this.#maxBytes) {
        this.#moves += 1;
        this.#moving = true;
        await this.#dropMiddle();
        this.#moving = false;
      }
      const part = rest.subarray(0, this.#maxBytes - this.#size);
      await this.#writeAt(part, this.#size);
      this.#size += part.length;
      rest = rest.subarray(part.length);
    }
  }

  async close(): Promise<void> {
    await this.#file.close();
  }

  async #dropMiddle(): Promise<void> {
    const tail = this.#headBytes + MARKER_BYTES;
    const kept = await this.#startOfLine(this.#size - this.#keepBytes);
    for (let at = kept; at < this.#size; at += BLOCK_BYTES) {
      await this.#writeAt(await this.#readAt(at, Math.min(BLOCK_BYTES, this.#size - at)), tail + at - kept);
    }
    this.#dropped += kept - (this.#dropped === 0 ? this.#headBytes : tail);
    await this.#writeAt(droppedLine(this.#dropped), this.#headBytes);
    this.#size = tail + this.#size - kept;
    await this.#file.truncate(this.#size);
  }

  /** The first position from `at` on where a line begins, or `at` itself where lines are long. */
  async #startOfLine(at: number): Promise<number> {
    const bytes = await this.#readAt(at, Math.min(LINE_SEARCH_BYTES, Math.floor(this.#keepBytes / 2)));
    return at + bytes.indexOf(0x0a) + 1;
  }

  async #readAt(position: number, length: number): Promise<Buffer> {
    const buffer = Buffer.alloc(length);
    for (let done = 0; done < length; ) {
      const { bytesRead } = await this.#file.read(buffer, done, length - done, position + done);
      if (bytesRead === 0) throw new Error(`the file ends before byte ${position + length}: something else has cut it`);
      done += bytesRead;
    }
    return buffer;
  }

  async #writeAt(bytes: Uint8Array, position: number): Promise<void> {
    for (let done = 0; done < bytes.length; ) {
      done += (await this.#file.write(bytes, done, bytes.length - done, position + done)).bytesWritten;
    }
  }
}
