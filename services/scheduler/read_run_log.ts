import { type FileHandle, open } from "node:fs/promises";
import { droppedLine, type FileLayout } from "./bounded_file.ts";
import type { GrowingLog } from "./run_log.ts";

/** So much is in memory for one reader, whatever the size of the log. */
const CHUNK_BYTES = 64 * 1024;

export interface ReadOptions {
  /** Begin so many bytes before the end; absent: at the beginning. */
  tail: number | undefined;
  /** Aborted when the reader has gone. */
  signal: AbortSignal;
}

/** Reads a log that nobody writes any more. */
export async function* readFinishedLog(path: string, { tail, signal }: ReadOptions): AsyncGenerator<Uint8Array> {
  const file = await open(path, "r");
  try {
    const { size } = await file.stat();
    for (let at = startAt(size, tail); !signal.aborted; ) {
      const bytes = await readSome(file, at, CHUNK_BYTES);
      if (bytes.length === 0) return;
      yield bytes;
      at += bytes.length;
    }
  } finally {
    await file.close();
  }
}

/**
 * Reads a log while it is written: up to where it stands now, or (`follow`) until it is closed and read to its end.
 *
 * Positions are counted in bytes that were ever written, since in the file the end moves when its middle is dropped. A
 * reader that falls behind what was dropped is told how much it has missed, with the line that the file itself has there.
 */
export async function* readGrowingLog(
  log: GrowingLog,
  { tail, follow, signal }: ReadOptions & { follow: boolean },
): AsyncGenerator<Uint8Array> {
  const file = await open(log.path, "r");
  try {
    const first = log.layout;
    const end = follow ? Number.POSITIVE_INFINITY : written(first);
    let at = positionOf(first, startAt(first.size, tail));
    while (!signal.aborted && at < end) {
      const { closed, layout } = log;
      if (!layout.moving && at < written(layout)) {
        const missed = at >= layout.headBytes ? droppedUpTo(layout) - at : 0;
        if (missed > 0) {
          yield droppedLine(missed);
          at += missed;
          continue;
        }
        const { offset, length } = placeOf(layout, at);
        const bytes = await readSome(file, offset, Math.min(length, end - at, CHUNK_BYTES));
        if (log.layout.moves !== layout.moves) continue;
        if (bytes.length === 0) throw new Error(`the file ends before byte ${offset}: something else has cut it`);
        yield bytes;
        at += bytes.length;
      } else if (closed || (await log.changed.wait({ signal })) === false) {
        return;
      }
    }
  } finally {
    await file.close();
  }
}

const startAt = (size: number, tail: number | undefined): number => (tail === undefined ? 0 : Math.max(0, size - tail));

/** How many bytes were ever written. */
const written = ({ size, dropped, headBytes, tailAt }: FileLayout): number =>
  dropped === 0 ? size : headBytes + dropped + size - tailAt;

/** The position of the first byte after those that were dropped; 0 where none were. */
const droppedUpTo = ({ dropped, headBytes }: FileLayout): number => (dropped === 0 ? 0 : headBytes + dropped);

/** The position of the byte at an offset in the file; for one in the line between, that of the first byte after it. */
const positionOf = (layout: FileLayout, offset: number): number =>
  layout.dropped === 0 || offset < layout.headBytes
    ? offset
    : droppedUpTo(layout) + Math.max(0, offset - layout.tailAt);

/** Where in the file a position is found, and how many bytes follow on from there. */
const placeOf = (layout: FileLayout, at: number): { offset: number; length: number } => {
  const { size, dropped, headBytes, tailAt } = layout;
  if (dropped === 0) return { offset: at, length: size - at };
  if (at < headBytes) return { offset: at, length: headBytes - at };
  const offset = tailAt + at - droppedUpTo(layout);
  return { offset, length: size - offset };
};

const readSome = async (file: FileHandle, offset: number, length: number): Promise<Uint8Array> => {
  const buffer = new Uint8Array(length);
  const { bytesRead } = await file.read(buffer, 0, length, offset);
  return buffer.subarray(0, bytesRead);
};
